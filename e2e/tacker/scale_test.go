package tacker

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// scaling is a VNF whose workers Tacker scales by either of its APIs.
type scaling struct {
	*vnf
}

// afterAHeal is the VNF in service, after a heal of its first worker.
func (s *scaling) afterAHeal() {
	s.t.Helper()
	if s.script == nil {
		s.instantiated()
		s.heal(s.workers[0])
		return
	}
	s.script.instantiated()
	s.script.heal(s.workers[0])
}

// out adds a worker. It waits for that worker and for no other node.
func (s *scaling) out() {
	s.t.Helper()
	added := s.newWorker()
	s.workers = append(s.workers, added)
	if s.script == nil {
		s.begin("SCALE", scaleRequest("SCALE_OUT"))
		s.updated()
		s.call("scale_end", scaleRequest("SCALE_OUT"), object{"scale_out_id_list": []string{added.member}}).succeeds()
	} else {
		s.script.next()
		s.script.succeeds("scale_start", scaleRequestV2("SCALE_OUT"), s.script.removes())
		s.updated()
		s.script.succeeds("scale_end", scaleRequestV2("SCALE_OUT"), s.script.removes())
	}
	if o := s.newest(); len(o.Targets) != 1 || o.Targets[0].NodeID != added.id || o.State != api.Completed {
		s.t.Errorf("the scale-out was about %+v, want %s alone", o, added.id)
	}
}

// in takes the first worker away, which it returns.
func (s *scaling) in() (left *server) {
	s.t.Helper()
	left = s.workers[0]
	if s.script == nil {
		s.begin("SCALE", scaleRequest("SCALE_IN"))
		s.call("scale_start", scaleRequest("SCALE_IN"), object{"scale_name_list": []string{"x"}, "scale_out_id_list": []string{left.member}}).succeeds()
		s.leave()
	} else {
		s.script.next()
		s.script.succeeds("scale_start", scaleRequestV2("SCALE_IN"), s.script.removes(left))
		s.leave()
		s.script.succeeds("scale_end", scaleRequestV2("SCALE_IN"), s.script.removes())
		if n := s.Node(left.id); n.State != api.NodeRevoked {
			s.t.Errorf("after scale_end the worker that left is %s", n.State)
		}
	}
	return left
}

// leave is what Heat does.
func (s *scaling) leave() {
	s.t.Helper()
	s.gone(s.workers[0])
	s.workers = s.workers[1:]
	s.updated()
}

func scaleRequest(kind string) object {
	return object{"type": kind, "aspect_id": "worker_instance", "number_of_steps": 1}
}

func scaleRequestV2(kind string) object {
	return object{"type": kind, "aspectId": "worker_instance", "numberOfSteps": 1}
}

// TestScaleAfterAHeal scales out, in and out again. Tacker's v1 API calls no hook after Heat
// has removed a member: the controller finds out by itself, or at the next operation.
func TestScaleAfterAHeal(t *testing.T) {
	for _, name := range []string{"v1", "v2"} {
		t.Run(name, func(t *testing.T) {
			results.Begin(t, suite, "scale-after-heal/"+name, "after a heal, scale-out, scale-in and scale-out again; members that leave are retired, also without a hook and by the next operation")
			results.LongOnly(t)
			s := &scaling{vnf: newTackerMachine(t).newVNF()}
			if name == "v2" {
				s.asV2()
			}
			s.afterAHeal()
			s.out()
			left := s.in()
			loopback.Until(t, "the worker that left is retired", func() bool { return s.Node(left.id).State == api.NodeRevoked })
			s.out()
			left = s.in()
			s.out() // at once
			if n := s.Node(left.id); n.State != api.NodeRevoked {
				t.Errorf("after the scale-out the worker that left before is %s", n.State)
			}
			if got := len(s.instance().Nodes); got != len(s.servers()) {
				t.Errorf("the instance has %d nodes, want %d", got, len(s.servers()))
			}
		})
	}
}

// TestScaleIn names the member of the group by its nested stack, as Tacker does.
func TestScaleIn(t *testing.T) {
	results.Begin(t, suite, "scale-in", "SCALE_IN names the nested stacks that leave, and a rolled-back scale-out nothing")
	w := newTackerMachine(t)
	v := w.newVNF()
	v.instantiated()
	before := len(v.operations())
	v.begin("SCALE", scaleRequest("SCALE_OUT"))
	v.call("scale_start", scaleRequest("SCALE_OUT"), object{"scale_name_list": []string{"x"}}).succeeds()
	v.asRecorded(before)
	v.call("scale_start", scaleRequest("SCALE_IN"), object{"scale_name_list": []string{"x"}, "scale_out_id_list": []string{v.workers[0].member}}).succeeds()
	v.asRecorded(before, "SCALE START COMPLETED")
}

// TestConnectivityAfterAScaling: Tacker's v1 API sends Heat the stack's own template, in which groups are as large as at the
// instantiation or at the last heal.
func TestConnectivityAfterAScaling(t *testing.T) {
	results.Begin(t, suite, "connectivity-after-scaling", "after a scale-out the START of a change of connectivity is refused, because Heat would delete the new worker; after a heal it changes, and no worker is lost")
	s := &scaling{vnf: newTackerMachine(t).newVNF()}
	s.instantiated()
	s.out()
	request := object{"ext_virtual_links": []object{{"ext_cps": []object{{"cpd_id": "workerNode_CP2"}}}}}
	before := len(s.operations())
	s.begin("CHANGE_EXT_CONN", nil)
	s.call("change_external_connectivity_start", request, nil).raises("the size that worker_instance had before scaling", "Heal a VNFC")
	s.asRecorded(before)
	s.heal(s.workers[0])
	s.begin("CHANGE_EXT_CONN", nil)
	s.call("change_external_connectivity_start", request, nil).succeeds()
	if problem := s.connected("workerNode_CP2"); problem != "" {
		t.Fatal(problem)
	}
	s.call("change_external_connectivity_end", request, nil).succeeds()
}
