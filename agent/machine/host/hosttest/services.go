package hosttest

import "github.com/nodehitch/nodehitch/agent/machine/host"

// service is what a service does here beyond being active or not.
type service struct {
	// brought is the software whose package brings the unit; started says that the
	// package enables and starts it.
	brought host.Software
	started bool
	// What else happens then; nil for nothing.
	installed, start, reload, stop func(*Machine)
}

// services are those that a package brings, or that do more than to be active. A test
// puts any other on its machine with Runs, or as a UnitState of its own: it can be
// started, stopped, restarted, reloaded, enabled and disabled.
var services = map[string]service{
	nfsServer: {brought: host.NFSServer, started: true, start: (*Machine).startNFSD, stop: (*Machine).stopNFSD},
	nfsdcld:   {brought: host.NFSServer, started: true, start: (*Machine).openRecord},
	keepalivedService: {
		brought:   host.Keepalived, // not started: it has no configuration yet
		installed: (*Machine).bringSample, start: (*Machine).loadKeepalived, reload: (*Machine).loadKeepalived, stop: (*Machine).stopKeepalived,
	},
	dockerService: {
		brought:   host.ContainerEngine, // not started: packages may be kept from starting services
		installed: (*Machine).makeEngine, start: (*Machine).bootEngine, reload: (*Machine).reloadEngine, stop: (*Machine).stopEngine,
	},
}

// bring adds the units that the package of a software has, and starts those that it starts. It
// reports whether there are any.
func (m *Machine) bring(software host.Software) (starts bool) {
	var started []string
	for name, s := range services {
		starts = starts || s.brought == software && s.started
		if s.brought != software || m.Units[name] != nil {
			continue
		}
		m.Units[name] = &UnitState{Enabled: s.started, Loaded: m.text(name)}
		if s.started {
			started = append(started, name)
		}
		if s.installed != nil {
			s.installed(m)
		}
	}
	for _, name := range started {
		_ = m.boot(name) // as in maintainer scripts, one that fails is no error
	}
	return starts
}
