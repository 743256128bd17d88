package lcm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

// bound is a report of the master that these volumes are bound; each is "name server".
func (w *world) bound(all ...string) {
	w.Helper()
	s := w.status(masterServer)
	for _, each := range all {
		name, server, _ := strings.Cut(each, " ")
		s.BoundPersistentVolumes = append(s.BoundPersistentVolumes, api.BoundPersistentVolume{Name: name, Server: server})
	}
	w.report(masterServer, s)
}

// twoPoints is the stack whose storage server has a second connection point.
func twoPoints() *api.Topology {
	t := full()
	points := &t.Servers[0].ConnectionPoints
	*points = append(*points, api.ConnectionPoint{Name: "second_CP", Addresses: []string{"10.20.0.5"}})
	return t
}

// bySecond are the parameters that point the volumes to the second connection point.
func bySecond() api.InstanceSpec {
	return api.InstanceSpec{AdditionalParams: []byte(strings.Replace(string(withManifest("10.10.0.0/24")), `"nfs_server_cp": "storage_server_CP"`, `"nfs_server_cp": "second_CP"`, 1))}
}

func TestAPutThatWouldMoveABoundVolumeIsRefused(t *testing.T) {
	const address = "/topology/servers/0/connectionPoints/0/addresses/0"
	withFirst := func(first string) api.InstanceSpec { return withVolumes(moved(first)) }
	for name, c := range map[string]struct {
		bound   []string
		spec    api.InstanceSpec
		pointer string // "" if the PUT is in order
		says    string
	}{
		"another address":                       {[]string{"pv1 10.10.0.5"}, withFirst("10.10.0.9"), address, "PersistentVolume pv1 to 10.10.0.9; it is Bound and points to 10.10.0.5"},
		"another server":                        {[]string{"pv1 10.10.0.5"}, withVolumes(topologyOf(server(masterServer, "master"), at(server(uuid(1, 2), "storage"), "10.10.0.7", "10.10.0.8"), server(workerServer, "worker"))), "/topology/servers/1/connectionPoints/0/addresses/0", "pv1 to 10.10.0.7"},
		"another connection point":              {[]string{"pv1 10.10.0.5"}, bySecond(), "/additionalParams", "pv1 to 10.20.0.5"},
		"the same address":                      {[]string{"pv1 10.10.0.5"}, api.InstanceSpec{AdditionalParams: withManifest("10.20.0.0/24")}, "", ""},
		"the same address, written otherwise":   {[]string{"pv1 ::ffff:10.10.0.5"}, withVolumes(full()), "", ""},
		"and none is bound":                     {nil, withFirst("10.10.0.9"), "", ""},
		"and another volume is bound":           {[]string{"pv7 10.10.0.5"}, withFirst("10.10.0.9"), "", ""},
		"back to where it points":               {[]string{"pv1 10.10.0.9"}, withFirst("10.10.0.9"), "", ""},
		"which already points elsewhere":        {[]string{"pv1 10.10.0.9"}, api.InstanceSpec{AdditionalParams: withManifest("10.20.0.0/24")}, "", ""},
		"from one wrong place to another":       {[]string{"pv1 10.10.0.9"}, withFirst("10.10.0.8"), address, "points to 10.10.0.9"},
		"and the cluster is another":            {[]string{"pv1 10.10.0.5"}, withVolumes(topologyOf(at(server(uuid(1, 2), "storage"), "10.10.0.7", "10.10.0.8"), server(uuid(2, 2), "master"))), "", ""},
		"without manifests, which keeps it":     {[]string{"pv1 10.10.0.5"}, withoutVolumes(), "", ""},
		"an IPv6 address, with brackets or not": {[]string{"pv1 [fd00::5]"}, withFirst("fd00::6"), address, "points to [fd00::5]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := registered(t)
			w.put(withVolumes(twoPoints()))
			w.bound(c.bound...)
			before := w.instance().DesiredVersion
			var err error
			wrote := w.writes(func() { _, _, err = w.LCM.Instances.PutInstance(w.ctx, instanceID, c.spec) })
			if c.pointer == "" {
				w.must(err)
				return
			}
			w.refused(err, api.ProblemVolumesInUse, c.says, "CHANGE_EXT_CONN")
			var p *api.Problem
			if errors.As(err, &p); len(p.InvalidParams) != 1 || p.InvalidParams[0].Pointer != c.pointer {
				t.Errorf("faults %+v, want one at %s", p.InvalidParams, c.pointer)
			}
			if wrote || w.instance().DesiredVersion != before {
				t.Error("something was written")
			}
		})
	}
}

// What counts is the last word of a machine that may speak, in this epoch.
func TestWhatIsNotKnownToBeBoundHoldsNothingUp(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"an agent that does not say": func(w *world) { w.report(masterServer, w.status(masterServer)) },
		"a master that was revoked":  func(w *world) { w.must(w.Enrollment.Revoke(w.ctx, masterServer, "by hand")) },
		"a machine that enrolled anew": func(w *world) {
			w.must(w.Enrollment.Reenroll(w.ctx, masterServer))
			w.must(w.enroll(masterServer))
		},
		"a report of before a restore": func(w *world) {
			w.restored()
			_, err := w.LCM.Instances.ConfirmInstance(w.ctx, instanceID)
			w.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := registered(t)
			w.bound("pv1 10.10.0.5")
			_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, withVolumes(moved("10.10.0.9")))
			w.refused(err, api.ProblemVolumesInUse)
			lose(w)
			w.put(withVolumes(moved("10.10.0.9")))
		})
	}
}

// A silent master, and another document, change nothing about what is bound.
func TestWhatIsBoundStaysKnown(t *testing.T) {
	w := registered(t)
	w.bound("pv1 10.10.0.5")
	w.put(api.InstanceSpec{AdditionalParams: withManifest("10.20.0.0/24")}) // another document for all
	w.Clock.Advance(10 * cadence)
	w.must(w.LCM.Sweep(w.ctx))
	w.restart()
	_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, withVolumes(moved("10.10.0.9")))
	w.refused(err, api.ProblemVolumesInUse, "pv1")
}

// An END says what the stack is: it cannot be refused for what has happened already.
func TestAnEndWithAnotherAddressIsTaken(t *testing.T) {
	w := registered(t)
	w.bound("pv1 10.10.0.5")
	r := request(api.Instantiate, api.PhaseEnd)
	r.Topology = moved("10.10.0.9")
	end := w.post(r)
	w.says(masterServer, api.ConditionFalse, api.ReasonSourceImmutable, "pv1")
	w.wantState(end, api.Processing)
}
