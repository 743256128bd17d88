package tacker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// late is a server whose machine does not boot.
func (v *vnf) late(s *server) { s.node = &node{stop: func() {}} }

// again is the VNF before its next instantiation, with servers that Heat has yet to make.
func (v *vnf) again() {
	for _, s := range v.servers() {
		s.id, s.node = v.newServer(s.name, s.point).id, nil
	}
	v.join = ""
}

// TestRollbackOfAnInstantiation calls what Tacker calls if an operator rolls back an
// instantiation whose nodes did not become Ready: terminate_end alone. Its code has
// terminate_start, too, in a place that is not reached.
func TestRollbackOfAnInstantiation(t *testing.T) {
	results.Begin(t, suite, "rollback/instantiate", "the hooks of a rolled-back instantiation, which get no request, forget the VNF, and it can be instantiated again")
	w := newTackerMachine(t)
	v := w.newVNF()
	for _, hooks := range [][]string{{"terminate_end"}, {"terminate_start", "terminate_end"}} {
		v.again()
		v.instantiateStart()
		v.late(v.workers[1])
		v.created()
		w.configure(map[string]string{"deadline": "2"})
		v.call("instantiate_end", v.instantiateRequest(), nil).raises("INSTANTIATE END", "NotEnrolled")
		w.configure(nil)
		v.asRecorded(0, "INSTANTIATE START COMPLETED", "INSTANTIATE END FAILED")
		v.deleted()
		for _, hook := range hooks {
			v.call(hook, nil, nil).succeeds()
		}
		forgotten(v)
	}
	v.again()
	v.instantiated()
	v.asRecorded(0, "INSTANTIATE START COMPLETED", "INSTANTIATE END COMPLETED")
}

// TestRollbackOfAScaleOut: Tacker calls scale_start with the names that Heat has, and no
// hook afterwards.
func TestRollbackOfAScaleOut(t *testing.T) {
	results.Begin(t, suite, "rollback/scale-out", "a rolled-back scale-out leaves no node and takes no worker that was added before; the next scale-out drops its server and completes")
	w := newTackerMachine(t)
	s := &scaling{vnf: w.newVNF()}
	s.instantiated()
	s.out()
	before := len(s.operations())
	lost := s.newWorker()
	s.late(lost)
	s.workers = append([]*server{lost}, s.workers...)
	s.begin("SCALE", scaleRequest("SCALE_OUT"))
	s.updated()
	w.configure(map[string]string{"deadline": "2"})
	s.call("scale_end", scaleRequest("SCALE_OUT"), object{"scale_out_id_list": []string{lost.member}}).raises("SCALE END", lost.id, "NotEnrolled")
	w.configure(nil)
	s.call("scale_start", scaleRequest("SCALE_OUT"), object{"scale_name_list": []string{lost.member[:8]}}).succeeds()
	s.asRecorded(before, "SCALE END FAILED")
	s.leave()
	s.makes("scale", object{"request": scaleRequest("SCALE_OUT"), "number": len(s.workers)})
	s.keep(s.kept.after)
	s.sized()
	s.out()
	s.asRecorded(before, "SCALE END FAILED", "SCALE END COMPLETED")
	if nodes := s.instance().Nodes; slices.Contains(nodes, lost.id) {
		t.Errorf("the instance has the nodes %v; want none of the server that was rolled back, %s", nodes, lost.id)
	}
}

// TestRollbackByTheScript is the same for Tacker's v2 API, which has hooks of its own for it, but not in Zed.
func TestRollbackByTheScript(t *testing.T) {
	results.Begin(t, suite, "rollback/v2", "a rolled-back instantiation of the v2 API, with and without hooks for that, can be begun again, and with hooks forgets the VNF; with hooks a rolled-back scale-out leaves no node")
	w := newTackerMachine(t)
	v := w.newVNF().asV2()
	hooks := map[string]bool{"zed": false, "2024.1": true}
	for _, release := range []string{"zed", "2024.1"} {
		v.succeeds("instantiate_start", v.body, nil)
		v.late(v.workers[1])
		v.created()
		w.configure(map[string]string{"deadline": "2"})
		if e := v.exec("instantiate_end", v.body, nil); e.Code != 1 || !strings.Contains(e.Error, "NotEnrolled") {
			t.Errorf("%s: exit %d: %s", release, e.Code, e.Error)
		}
		w.configure(nil)
		if hooks[release] {
			before := len(v.operations())
			v.succeeds("instantiate_rollback_start", v.body, nil)
			v.asRecorded(before)
		}
		v.deleted()
		if hooks[release] {
			v.succeeds("instantiate_rollback_end", v.body, nil)
			forgotten(v.vnf)
		}
		v.again()
		v.occurrence, v.passed = uuid.NewString(), object{} // the controller may have no such instance
	}
	v.instantiated()

	s := &scaling{vnf: v.vnf}
	for _, release := range []string{"zed", "2024.1"} {
		before := v.next()
		lost := v.newWorker()
		v.late(lost)
		v.succeeds("scale_start", scaleRequestV2("SCALE_OUT"), v.removes())
		v.workers = append([]*server{lost}, v.workers...)
		v.updated()
		w.configure(map[string]string{"deadline": "2"})
		if e := v.exec("scale_end", scaleRequestV2("SCALE_OUT"), v.removes()); e.Code != 1 || !strings.Contains(e.Error, lost.id) {
			t.Errorf("%s: exit %d: %s", release, e.Code, e.Error)
		}
		w.configure(nil)
		if hooks[release] {
			v.succeeds("scale_rollback_start", scaleRequestV2("SCALE_OUT"), v.removes())
		}
		s.leave()
		if hooks[release] {
			v.succeeds("scale_rollback_end", scaleRequestV2("SCALE_OUT"), v.removes())
		}
		records := []string{"SCALE START COMPLETED", "SCALE END FAILED"}
		if hooks[release] {
			records = append(records, "SCALE END COMPLETED")
		}
		v.asRecorded(before, records...)
		if nodes := v.instance().Nodes; hooks[release] && slices.Contains(nodes, lost.id) {
			t.Errorf("the instance has the nodes %v; want none of the server that was rolled back, %s", nodes, lost.id)
		}
	}
	s.out()
	if nodes := v.instance().Nodes; len(nodes) != len(v.servers()) {
		t.Errorf("the instance has the nodes %v; want those of the stack alone", nodes)
	}
}

// TestRollbackOfAChangeOfConnectivity takes two changes of the storage server's connection point
// back: one that Heat did not make, and one whose END has COMPLETED before Tacker failed.
func TestRollbackOfAChangeOfConnectivity(t *testing.T) {
	results.Begin(t, suite, "rollback/connectivity", "a rolled-back change of the storage server's connection point registers the PersistentVolumes again, at the address that the stack has")
	w := newTackerMachine(t)
	v := w.newVNF().asV2()
	v.instantiated()
	request := object{"extVirtualLinks": []object{{"extCps": []object{{"cpdId": v.storage.point}}}}}
	address := v.storage.address

	before := v.next()
	v.succeeds("change_external_connectivity_start", request, nil)
	v.withdrawn(true)
	v.succeeds("change_external_connectivity_rollback_start", request, nil)
	v.succeeds("change_external_connectivity_rollback_end", request, nil)
	v.asRecorded(before, "CHANGE_EXT_CONN START COMPLETED", "CHANGE_EXT_CONN END COMPLETED")
	v.withdrawn(false)

	before = v.next()
	v.succeeds("change_external_connectivity_start", request, nil)
	v.storage.address = "10.10.7.7"
	v.updated()
	v.succeeds("change_external_connectivity_end", request, nil)
	v.storage.address = address
	v.updated()
	v.succeeds("change_external_connectivity_rollback_end", request, nil)
	v.asRecorded(before, "CHANGE_EXT_CONN START COMPLETED", "CHANGE_EXT_CONN END COMPLETED", "CHANGE_EXT_CONN END COMPLETED")
	v.withdrawn(false)
	if n := w.Node(v.storage.id); !slices.Equal(n.Addresses, []string{address}) {
		t.Errorf("the storage server has the addresses %v, Heat %s", n.Addresses, address)
	}
}

// TestAFailedChangeOfConnectivity: Heat refuses a change of the storage server's connection point, so Tacker's v1 API does not
// call its END.
func TestAFailedChangeOfConnectivity(t *testing.T) {
	results.Begin(t, suite, "failed-connectivity", "PersistentVolumes that the START of a change of connectivity has withdrawn are registered again by Tacker's retry, and by the next operation of any kind after the change was failed for good")
	w := newTackerMachine(t)
	v := w.newVNF()
	v.instantiated()
	change := func(point string) (end func()) {
		request := object{"ext_virtual_links": []object{{"ext_cps": []object{{"cpd_id": point}}}}}
		v.call("change_external_connectivity_start", request, nil).succeeds()
		return func() {
			v.updated()
			v.call("change_external_connectivity_end", request, nil).succeeds()
		}
	}
	refused := func() (end func()) { // by Heat, so there is no hook
		v.begin("CHANGE_EXT_CONN", nil)
		end = change(v.storage.point)
		v.withdrawn(true)
		return end
	}
	refused()() // Tacker's retry calls only the END
	v.withdrawn(false)

	for name, next := range map[string]func(){ // each after op fail, which calls no hook
		"modification of information": func() {
			v.begin("MODIFY_INFO", nil)
			v.call("modify_information_start", nil, nil).succeeds()
			v.call("modify_information_end", nil, nil).succeeds()
		},
		"change of another connection point": func() {
			v.begin("CHANGE_EXT_CONN", nil)
			change(v.workers[0].point)()
		},
		"heal of a worker": func() { v.heal(v.workers[0]) },
		"scale-out": func() {
			v.workers = append(v.workers, v.newWorker())
			v.begin("SCALE", scaleRequest("SCALE_OUT"))
			v.updated()
			v.call("scale_end", scaleRequest("SCALE_OUT"), object{"scale_out_id_list": []string{v.workers[len(v.workers)-1].member}}).succeeds()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			defer func() { w.t = w.whole }()
			refused()
			next() // its END does not wait for what its START has given back
			loopback.Until(t, "the PersistentVolumes are registered again", func() bool { return v.registration(false) == nil })
			if name == "scale-out" { // after one, only a heal lets the connectivity change
				v.heal(v.workers[0])
			}
		})
	}
}

// withdrawn asserts whether the master has withdrawn the PersistentVolumes.
func (v *vnf) withdrawn(want bool) {
	v.t.Helper()
	if err := v.registration(want); err != nil {
		v.t.Error(err)
	}
}

// registration is an error unless the master has withdrawn the PersistentVolumes, or else registered them.
func (v *vnf) registration(withdrawn bool) error {
	c := v.Node(v.masters[0].id).Status.Condition(api.ConditionPersistentVolumesRegistered)
	if c == nil || c.Status != api.ConditionTrue || (c.Reason == api.ReasonAbsent) != withdrawn {
		return fmt.Errorf("the master says %+v of the PersistentVolumes; withdrawn: %v", c, withdrawn)
	}
	return nil
}
