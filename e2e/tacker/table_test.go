package tacker

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// hook is one that Tacker calls in the life of a VNF.
type hook struct {
	name string
	// before is what Tacker and Heat do before it, once.
	before func()
	begin  func() *running
	// problem waits for its end, and is empty if it has succeeded.
	problem func(*running) string
	// record is the one that the controller has of it, however often it was called;
	// empty for none.
	record string
}

func (h hook) succeeds(r *running) {
	r.t.Helper()
	if problem := h.problem(r); problem != "" {
		r.t.Fatalf("%s: %s", h.name, problem)
	}
}

// stage is a VNF whose hooks reach the controller through a door.
type stage struct {
	*vnf
	door *door
	// faults is how many there were.
	faults int
}

// faults are what may happen at a hook.
var faults = []struct {
	name, title string
	run         func(*stage, hook)
}{
	{"first", "each hook is called once", func(_ *stage, h hook) { h.succeeds(h.begin()) }},
	{"retried", "each hook is killed before the first of its calls, then before the second, until it has no more, and then succeeds", (*stage).retried},
	{"duplicate", "each hook is called again after it has succeeded", func(s *stage, h hook) {
		h.succeeds(h.begin())
		s.faults++
		h.succeeds(h.begin())
	}},
	{"away", "the controller is away when each hook begins, and comes back", (*stage).away},
	{"restarted", "the controller is killed and started again before each call of each hook", (*stage).restarted},
}

func (s *stage) retried(h hook) {
	for last := 1; ; last++ {
		came, over := make(chan struct{}), make(chan struct{})
		s.door.before(func(call int) bool {
			if call < last {
				return true
			}
			if call == last {
				close(came)
			}
			<-over
			return false
		})
		r := h.begin()
		select {
		case <-came:
			_ = r.process.Process.Kill()
			<-r.process.Ended()
			close(over)
			s.faults++
		case <-r.process.Ended():
			close(over)
			h.succeeds(r)
			return
		}
	}
}

func (s *stage) away(h hook) {
	s.End(syscall.SIGTERM)
	tried := make(chan struct{})
	s.door.before(func(call int) bool {
		if call == 1 {
			close(tried)
		}
		return true
	})
	r := h.begin()
	select {
	case <-tried:
	case <-r.process.Ended(): // without a call
	}
	s.Start()
	s.faults++
	h.succeeds(r)
}

func (s *stage) restarted(h hook) {
	asked, again := make(chan struct{}), make(chan bool)
	s.door.before(func(int) bool {
		asked <- struct{}{}
		return <-again
	})
	r := h.begin()
	for {
		select {
		case <-asked:
			s.End(syscall.SIGKILL)
			s.Start()
			s.faults++
			again <- true
		case <-r.process.Ended():
			h.succeeds(r)
			return
		}
	}
}

// TestEveryHookWithEachFault takes a VNF of each of Tacker's APIs through its life, once for
// each fault. The controller has one record of each hook, and that is COMPLETED.
func TestEveryHookWithEachFault(t *testing.T) {
	for name, life := range map[string]func(*stage) []hook{"v1": lifeOfV1, "v2": lifeOfV2} {
		for _, fault := range faults {
			t.Run(name+"/"+fault.name, func(t *testing.T) {
				c := results.Begin(t, suite, "every-hook/"+name+"/"+fault.name, fault.title)
				results.LongOnly(t)
				w := newTackerMachine(t)
				s := &stage{vnf: w.newVNF(), door: newDoor(t, w.URL)}
				w.configure(map[string]string{"urls": s.door.url()})
				hooks := life(s)
				for _, h := range hooks {
					before := 0
					if h.name != "instantiate_start" {
						before = len(s.operations())
					}
					h.before()
					began := time.Now()
					fault.run(s, h)
					s.door.before(nil)
					t.Logf("%s: %.1f s", h.name, time.Since(began).Seconds())
					switch {
					case h.name == "terminate_end":
						forgotten(s.vnf)
					case h.record == "":
						s.asRecorded(before)
					default:
						s.asRecorded(before, h.record)
					}
				}
				c.Figure("hooks", "%d", len(hooks))
				c.Figure("faults", "%d", s.faults)
			})
		}
	}
}

// completed is the record of a hook's operation.
func completed(operation api.OperationType, phase api.OperationPhase) string {
	return fmt.Sprintf("%s %s %s", operation, phase, api.Completed)
}

func lifeOfV1(s *stage) []hook {
	v := s.vnf
	nothing := func() {}
	one := func(name string, operation api.OperationType, phase api.OperationPhase, before func(), request func() (object, object)) hook {
		return hook{name: name, before: before, record: completed(operation, phase),
			begin: func() *running {
				body, keywords := request()
				return v.call(name, body, keywords)
			},
			problem: (*running).problem}
	}
	with := func(body object) func() (object, object) { return func() (object, object) { return body, nil } }
	instantiate := func() (object, object) { return v.instantiateRequest(), nil }
	var out, leaving *server
	points := object{"ext_virtual_links": []object{{"ext_cps": []object{{"cpd_id": "storage_server_CP"}}}}}
	begin := func(operation string) func() { return func() { v.begin(operation, nil) } }
	heal := func(servers func() []*server) []hook {
		var named []*server
		var request object
		given := func() (object, object) { return request, nil }
		return []hook{
			one("heal_start", api.Heal, api.PhaseStart, func() {
				begin("HEAL")()
				named = servers()
				request = healRequest(named...)
			}, given),
			one("heal_end", api.Heal, api.PhaseEnd, func() { v.healed(named...) }, given),
		}
	}

	return slices.Concat([]hook{
		one("instantiate_start", api.Instantiate, api.PhaseStart, func() { v.begin("INSTANTIATE", v.body) }, instantiate),
		one("instantiate_end", api.Instantiate, api.PhaseEnd, s.created, instantiate),
		one("scale_end", api.Scale, api.PhaseEnd, func() {
			v.begin("SCALE", scaleRequest("SCALE_OUT"))
			out = v.newWorker()
			v.workers = append(v.workers, out)
			s.updated()
		}, func() (object, object) {
			return scaleRequest("SCALE_OUT"), object{"scale_out_id_list": []string{out.member}}
		}),
	}, heal(v.worker), heal(v.storageServer), heal(v.none), []hook{
		one("change_external_connectivity_start", api.ChangeExtConn, api.PhaseStart, begin("CHANGE_EXT_CONN"), with(points)),
		one("change_external_connectivity_end", api.ChangeExtConn, api.PhaseEnd, func() {
			v.storage.address = "10.10.7.7"
			if problem := v.connected("storage_server_CP"); problem != "" {
				v.t.Fatal(problem)
			}
		}, with(points)),
		one("modify_information_start", api.ModifyInfo, api.PhaseStart, begin("MODIFY_INFO"), with(nil)),
		one("modify_information_end", api.ModifyInfo, api.PhaseEnd, nothing, with(nil)),
		one("scale_start", api.Scale, api.PhaseStart, func() {
			v.begin("SCALE", scaleRequest("SCALE_IN"))
			leaving = v.workers[0]
		}, func() (object, object) {
			return scaleRequest("SCALE_IN"), object{"scale_name_list": []string{"x"}, "scale_out_id_list": []string{leaving.member}}
		}),
		one("terminate_start", api.Terminate, api.PhaseStart, begin("TERMINATE"), with(object{})),
		one("terminate_end", api.Terminate, api.PhaseEnd, s.deleted, with(object{})),
	})
}

// Those that the heals of a life name.
func (v *vnf) worker() []*server        { return v.workers[:1] }
func (v *vnf) storageServer() []*server { return []*server{v.storage} }
func (v *vnf) none() []*server          { return nil }

func lifeOfV2(s *stage) []hook {
	v := s.asV2()
	nothing := func() {}
	one := func(name string, operation api.OperationType, phase api.OperationPhase, before func(), request, more func() object) hook {
		record := ""
		if operation != "" {
			record = completed(operation, phase)
		}
		return hook{name: name, before: before, record: record,
			begin:   func() *running { return v.run(name, request(), more()) },
			problem: func(r *running) string { return v.ended(r).problem() }}
	}
	with := func(body object) func() object { return func() object { return body } }
	next := func() { v.next() }
	var leaving *server
	var removed object
	scale := scaleRequestV2("SCALE_IN")
	points := object{"extVirtualLinks": []object{{"extCps": []object{{"cpdId": "storage_server_CP"}}}}}
	changed := object{"vnfdId": v.vnfd(), "additionalParams": v.body["additionalParams"]}
	removes := func() object { return removed }
	heal := func(servers func() []*server) []hook {
		var named []*server
		given := func() object { return v.healing }
		return []hook{
			one("heal_start", api.Heal, api.PhaseStart, func() {
				next()
				named = servers()
				v.healing, removed = v.healOf(named...)
			}, given, removes),
			one("heal_end", api.Heal, api.PhaseEnd, func() { v.healed(named...) }, given, removes),
		}
	}

	return slices.Concat([]hook{
		one("instantiate_start", api.Instantiate, api.PhaseStart, nothing, with(v.body), with(nil)),
		one("instantiate_end", api.Instantiate, api.PhaseEnd, func() {
			v.join = v.JoinToken(v.id)
			s.created()
		}, with(v.body), with(nil)),
		one("scale_start", api.Scale, api.PhaseStart, func() {
			next()
			leaving = v.workers[0]
			removed = v.removes(leaving)
		}, with(scale), removes),
		one("scale_end", api.Scale, api.PhaseEnd, func() {
			v.gone(leaving)
			v.workers = v.workers[1:]
			s.updated()
			removed = v.removes()
		}, with(scale), removes),
	}, heal(v.worker), heal(v.storageServer), heal(v.none), []hook{
		one("change_external_connectivity_start", api.ChangeExtConn, api.PhaseStart, next, with(points), with(nil)),
		one("change_external_connectivity_end", api.ChangeExtConn, api.PhaseEnd, func() {
			v.storage.address = "10.10.7.7"
			s.updated()
		}, with(points), with(nil)),
		one("modify_information_start", api.ModifyInfo, api.PhaseStart, next, with(object{}), with(nil)),
		one("modify_information_end", api.ModifyInfo, api.PhaseEnd, nothing, with(object{}), with(nil)),
		one("change_current_package_start", api.ChangeVnfPkg, api.PhaseStart, next, with(changed), with(nil)),
		one("coordinate_vnf", "", "", nothing, with(nil), func() object { return v.coordination(v.workers[0]) }),
		one("change_current_package_end", api.ChangeVnfPkg, api.PhaseEnd, nothing, with(changed), with(nil)),
		one("terminate_start", api.Terminate, api.PhaseStart, next, with(object{}), with(nil)),
		one("terminate_end", api.Terminate, api.PhaseEnd, s.deleted, with(object{}), with(nil)),
	})
}
