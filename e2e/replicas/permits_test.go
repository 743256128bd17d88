package replicas

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/anishathalye/porcupine"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const (
	// permitClients are copies of one storage server, two for each third of its volumes: they
	// ask for the same permits at the same time.
	permitClients = 6
	volumes       = 36
)

// message is one of the format exchange about a volume, and permit the answer to it.
type message struct {
	volume string
	phase  api.FormatPhase
	permit string // for started and formatted
}

type answer struct {
	permit  string
	outcome outcome
}

// permitState of a volume: its permit is "?" if it was given and no answer has named it.
type permitState struct {
	phase  api.FormatPhase // the last one that was done, "" for none
	permit string
}

var permitModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		return partition(all, func(o porcupine.Operation) string { return o.Input.(message).volume })
	},
	Init: func() any { return permitState{} },
	Step: func(state, input, output any) (bool, any) {
		return stepPermit(state.(permitState), input.(message), output.(answer))
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, output) },
}

func stepPermit(s permitState, m message, a answer) (bool, any) {
	names := m.permit
	if m.phase == api.FormatWanted {
		names = cmp.Or(a.permit, "?")
	}
	if s.permit == "?" {
		s.permit = names
	}
	same := names == s.permit || names == "?"
	var granted bool
	after := s
	switch m.phase {
	case api.FormatWanted:
		granted = s.phase == "" || s.phase != api.FormatFormatted && same
		if s.phase == "" {
			after = permitState{m.phase, names}
		}
	case api.FormatStarted:
		granted = same && (s.phase == api.FormatWanted || s.phase == api.FormatStarted)
		after.phase = api.FormatStarted
	case api.FormatFormatted:
		granted = same && (s.phase == api.FormatStarted || s.phase == api.FormatFormatted)
		after.phase = api.FormatFormatted
	}
	switch {
	case a.outcome == unknown && granted:
		return true, after
	case a.outcome == unknown:
		return true, s
	case a.outcome == done:
		return granted, after
	}
	return !granted, s
}

// storage is a machine with many volumes, and its copies.
type storage struct {
	*load
	copies []*loopback.Machine
	uuids  map[string]string
	sizes  map[string]int64

	mu sync.Mutex
	// given are the permits that were given for each volume.
	given map[string]map[string]bool
	// formatted are the volumes whose format was acknowledged.
	formatted map[string]bool
}

func (l *load) newStorage() *storage {
	w, s := l.w, &storage{load: l, given: map[string]map[string]bool{}, formatted: map[string]bool{}}
	server, instance := id(3, l.phase), id(2, l.phase)
	topology := loopback.StorageTopology(server, "", 0)
	topology.Servers[0].VolumeIds, topology.Volumes = nil, nil
	var params []any
	for i := range volumes {
		name, volume := fmt.Sprintf("volume%d", i), id(4, l.phase*1000+i)
		params = append(params, map[string]any{"volume_resource_id": name, "mount_to": "/volume" + fmt.Sprint(i)})
		topology.Servers[0].VolumeIds = append(topology.Servers[0].VolumeIds, volume)
		topology.Volumes = append(topology.Volumes, api.TopologyVolume{ResourceID: name, ID: volume, SizeBytes: 1 << 30})
	}
	all := loopback.ClusterParams("")
	loopback.ClusterOf(all)["storage_server"] = map[string]any{
		"ssh_cp_name": "storage_server_CP", "nic_cp_name": "storage_server_CP", "cinder_volume_setup_params": params,
		"nfs_server_setup_params": []any{map[string]any{"export_dir": "/volume0/nfs", "export_to": "10.20.0.0/24"}}}
	c := w.caller(90)
	w.must(c.until(func(a *client.Controller) error {
		return client.Done(a.PutInstance(w.t.Context(), instance, nil, spec(w.t, all, topology)))
	}))
	first := l.machine(server, w.joinToken(c, instance), 91)
	var config *api.NodeConfig
	loopback.Until(w.t, "the storage server has its document", func() bool {
		for _, first.Controller = range w.trust.Urls {
			var err error
			if config, err = first.Config(w.t.Context()); err == nil {
				return true
			}
		}
		return false
	})
	if config.Storage == nil || len(config.Storage.Volumes) != volumes {
		w.t.Fatalf("the storage server's document has other volumes than %d: %+v", volumes, config.Storage)
	}
	s.uuids, s.sizes = map[string]string{}, map[string]int64{}
	for _, v := range config.Storage.Volumes {
		s.uuids[v.VolumeID], s.sizes[v.VolumeID] = v.FilesystemUUID, v.SizeBytes
	}
	for n := range permitClients {
		disk := *first
		disk.Dial = w.clients.dialFrom(w.clients.machine(100 + n))
		s.copies = append(s.copies, &disk)
	}
	return s
}

// permits runs one client of permits until ctx ends: it has one volume after the other
// formatted, and then asks for permits that are spent.
func (s *storage) permits(ctx context.Context, number int) {
	share := volumes / (permitClients / 2)
	from := number / 2 * share
	for i := 0; ; i++ {
		m := message{volume: id(4, s.phase*1000+from+i%share), phase: api.FormatWanted}
		for _, m.phase = range []api.FormatPhase{api.FormatWanted, api.FormatStarted, api.FormatFormatted} {
			if m.phase != api.FormatWanted && m.permit == "" {
				break // it is spent
			}
			if !s.insist(ctx, number, &m) {
				return
			}
		}
	}
}

// insist repeats a message until it is answered; false if ctx has ended.
func (s *storage) insist(ctx context.Context, number int, m *message) bool {
	for sleep(ctx, pace+rand.N(2*pace)) {
		a, answered := s.say(number, *m)
		if answered && a.outcome != unknown {
			if m.phase == api.FormatWanted {
				m.permit = a.permit
			}
			return true
		}
	}
	return false
}

// say sends one message and notes it; false if it did not reach a controller.
func (s *storage) say(number int, m message) (a answer, sent bool) {
	machine := s.copies[number]
	at := slices.Index(s.w.trust.Urls, machine.Controller)
	ctx, cancel := context.WithTimeout(s.w.t.Context(), callLimit)
	defer cancel()
	o := porcupine.Operation{ClientId: registerClients + number, Input: m, Call: s.volumes.now()}
	r := api.FormatReport{Phase: m.phase, Permit: m.permit, SizeBytes: s.sizes[m.volume], FilesystemUUID: s.uuids[m.volume]}
	if m.phase == api.FormatWanted {
		r.BlankCheck = &api.BlankCheck{BytesRead: 1 << 20, Samples: 9}
	}
	permit, err := machine.Format(ctx, m.volume, r)
	o.Return = s.volumes.now()
	a.outcome = done
	if err != nil {
		a.outcome = outcomeOf(err)
		if client.Status(err) == 0 || a.outcome == unknown {
			machine.Controller = s.w.trust.Urls[(at+1)%len(s.w.trust.Urls)]
		}
		if dialed(err) || passes(err) && a.outcome != unknown {
			return a, false
		}
	} else {
		a.permit = permit.Permit
		s.note(m, a)
	}
	o.Output = a
	s.volumes.add(o, a.outcome, true, s.w.controllers[at].name)
	return a, true
}

func (s *storage) note(m message, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given[m.volume] == nil {
		s.given[m.volume] = map[string]bool{}
	}
	s.given[m.volume][a.permit] = true
	if m.phase == api.FormatFormatted {
		s.formatted[m.volume] = true
	}
}

// twice counts volumes for which several permits were given.
func (s *storage) twice() (n int) {
	for volume, permits := range s.given {
		if len(permits) > 1 {
			n++
			s.w.t.Errorf("%d permits were given for the volume %s", len(permits), volume)
		}
	}
	return n
}

// lostFormats counts formats that were acknowledged and are not on record.
func (s *storage) lostFormats(c *caller) (n int) {
	for volume := range s.formatted {
		var state api.PermitState
		s.w.must(c.until(func(a *client.Controller) error {
			v, err := client.Read[api.Volume](a.GetVolume(s.w.t.Context(), volume, nil))
			if err == nil {
				state = v.PermitState
			}
			return err
		}))
		if state != api.PermitFormatted {
			n++
			s.w.t.Errorf("the format of %s was acknowledged, and its permit is %s", volume, state)
		}
	}
	return n
}
