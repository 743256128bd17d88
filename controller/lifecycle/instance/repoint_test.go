package instance_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// bound is a report of the master that these volumes are bound; each is "name server".
func bound(w *lifecycletest.World, all ...string) {
	w.Helper()
	s := w.Status(lifecycletest.MasterServer)
	for _, each := range all {
		name, server, _ := strings.Cut(each, " ")
		s.BoundPersistentVolumes = append(s.BoundPersistentVolumes, api.BoundPersistentVolume{Name: name, Server: server})
	}
	w.Report(lifecycletest.MasterServer, s)
}

// twoPoints is the stack whose storage server has a second connection point.
func twoPoints() *api.Topology {
	t := lifecycletest.FullTopology()
	points := &t.Servers[0].ConnectionPoints
	*points = append(*points, api.ConnectionPoint{Name: "second_CP", Addresses: []string{"10.20.0.5"}})
	return t
}

// bySecond are the parameters that point the volumes to the second connection point.
func bySecond() api.InstanceSpec {
	return api.InstanceSpec{AdditionalParams: []byte(strings.Replace(string(lifecycletest.VolumesParameters("10.10.0.0/24")), `"nfs_server_cp": "storage_server_CP"`, `"nfs_server_cp": "second_CP"`, 1))}
}

func TestAPutThatWouldMoveABoundVolumeIsRefused(t *testing.T) {
	const address = "/topology/servers/0/connectionPoints/0/addresses/0"
	withFirst := func(first string) api.InstanceSpec {
		return lifecycletest.WithVolumes(lifecycletest.MovedTopology(first))
	}
	for name, c := range map[string]struct {
		bound   []string
		spec    api.InstanceSpec
		pointer string // "" if the PUT is in order
		says    string
	}{
		"another address":                       {[]string{"pv1 10.10.0.5"}, withFirst("10.10.0.9"), address, "PersistentVolume pv1 to 10.10.0.9; it is Bound and points to 10.10.0.5"},
		"another server":                        {[]string{"pv1 10.10.0.5"}, lifecycletest.WithVolumes(lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.MasterServer, "master"), lifecycletest.WithAddresses(lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"), "10.10.0.7", "10.10.0.8"), lifecycletest.Server(lifecycletest.WorkerServer, "worker"))), "/topology/servers/1/connectionPoints/0/addresses/0", "pv1 to 10.10.0.7"},
		"another connection point":              {[]string{"pv1 10.10.0.5"}, bySecond(), "/additionalParams", "pv1 to 10.20.0.5"},
		"the same address":                      {[]string{"pv1 10.10.0.5"}, api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.20.0.0/24")}, "", ""},
		"the same address, written otherwise":   {[]string{"pv1 ::ffff:10.10.0.5"}, lifecycletest.WithVolumes(lifecycletest.FullTopology()), "", ""},
		"and none is bound":                     {nil, withFirst("10.10.0.9"), "", ""},
		"and another volume is bound":           {[]string{"pv7 10.10.0.5"}, withFirst("10.10.0.9"), "", ""},
		"back to where it points":               {[]string{"pv1 10.10.0.9"}, withFirst("10.10.0.9"), "", ""},
		"which already points elsewhere":        {[]string{"pv1 10.10.0.9"}, api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.20.0.0/24")}, "", ""},
		"from one wrong place to another":       {[]string{"pv1 10.10.0.9"}, withFirst("10.10.0.8"), address, "points to 10.10.0.9"},
		"and the cluster is another":            {[]string{"pv1 10.10.0.5"}, lifecycletest.WithVolumes(lifecycletest.TopologyOf(lifecycletest.WithAddresses(lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"), "10.10.0.7", "10.10.0.8"), lifecycletest.Server(lifecycletest.UUID(2, 2), "master"))), "", ""},
		"without manifests, which keeps it":     {[]string{"pv1 10.10.0.5"}, lifecycletest.Spec(nil), "", ""},
		"an IPv6 address, with brackets or not": {[]string{"pv1 [fd00::5]"}, withFirst("fd00::6"), address, "points to [fd00::5]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Registered(t)
			w.Put(lifecycletest.WithVolumes(twoPoints()))
			bound(w, c.bound...)
			before := w.Instance().DesiredVersion
			var err error
			wrote := w.Writes(func() { _, _, err = w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, c.spec) })
			if c.pointer == "" {
				w.Must(err)
				return
			}
			w.WantRefused(err, api.ProblemVolumesInUse, c.says, "CHANGE_EXT_CONN")
			var p *api.Problem
			if errors.As(err, &p); len(p.InvalidParams) != 1 || p.InvalidParams[0].Pointer != c.pointer {
				t.Errorf("faults %+v, want one at %s", p.InvalidParams, c.pointer)
			}
			if wrote || w.Instance().DesiredVersion != before {
				t.Error("something was written")
			}
		})
	}
}

// What counts is the last word of a machine that may speak, in this epoch.
func TestWhatIsNotKnownToBeBoundHoldsNothingUp(t *testing.T) {
	for name, lose := range map[string]func(*lifecycletest.World){
		"an agent that does not say": func(w *lifecycletest.World) {
			w.Report(lifecycletest.MasterServer, w.Status(lifecycletest.MasterServer))
		},
		"a master that was revoked": func(w *lifecycletest.World) {
			w.Must(w.Enrollment.Revoke(w.Ctx, lifecycletest.MasterServer, "by hand"))
		},
		"a machine that enrolled anew": func(w *lifecycletest.World) {
			w.Must(w.Enrollment.Reenroll(w.Ctx, lifecycletest.MasterServer))
			w.Must(w.Enroll(lifecycletest.MasterServer))
		},
		"a report of before a restore": func(w *lifecycletest.World) {
			w.Restore()
			_, err := w.Lifecycle.Instances.ConfirmInstance(w.Ctx, lifecycletest.InstanceID)
			w.Must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Registered(t)
			bound(w, "pv1 10.10.0.5")
			_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.WithVolumes(lifecycletest.MovedTopology("10.10.0.9")))
			w.WantRefused(err, api.ProblemVolumesInUse)
			lose(w)
			w.Put(lifecycletest.WithVolumes(lifecycletest.MovedTopology("10.10.0.9")))
		})
	}
}

// A silent master, and another document, change nothing about what is bound.
func TestWhatIsBoundStaysKnown(t *testing.T) {
	w := lifecycletest.Registered(t)
	bound(w, "pv1 10.10.0.5")
	w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.VolumesParameters("10.20.0.0/24")}) // another document for all
	w.Clock.Advance(10 * lifecycletest.PollInterval)
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	w.Restart()
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.WithVolumes(lifecycletest.MovedTopology("10.10.0.9")))
	w.WantRefused(err, api.ProblemVolumesInUse, "pv1")
}

// An END says what the stack is: it cannot be refused for what has happened already.
func TestAnEndWithAnotherAddressIsTaken(t *testing.T) {
	w := lifecycletest.Registered(t)
	bound(w, "pv1 10.10.0.5")
	r := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	r.Topology = lifecycletest.MovedTopology("10.10.0.9")
	end := w.Post(r)
	w.ReportVolumes(lifecycletest.MasterServer, api.ConditionFalse, api.ReasonSourceImmutable, "pv1")
	w.WantState(end, api.Processing)
}
