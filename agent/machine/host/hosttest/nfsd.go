package hosttest

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

const (
	nfsServer = "nfs-server.service"
	nfsdcld   = "nfsdcld.service"
	nfsConf   = "/etc/nfs.conf.d/nodehitch.conf"
)

// NFSDState is the kernel's NFS server, and nfsdcld, which records its clients.
type NFSDState struct {
	// SetsScope says that rpc.nfsd has an option for the scope.
	SetsScope bool
	// OtherTracking says that the kernel records its clients without nfsdcld, which it decides
	// when it starts.
	OtherTracking bool
	// SlowVolume says that the first read of a volume takes longer than the kernel waits for
	// nfsdcld, which tells systemd that it runs before it reads.
	SlowVolume bool
	// NoThreads says that somebody has run `rpc.nfsd 0`, which systemd does not notice.
	NoThreads bool
	// Clients have a lease.
	Clients int
	// Conf and DropIn are what the server was started with, Exported what it exported then.
	Conf, DropIn string
	Exported     []host.Export
	// Record is the directory of the database that nfsdcld has open.
	Record string
	// opening says that nfsdcld has not opened it yet.
	opening bool
}

func (m *Machine) startNFSD() {
	m.NFSD.NoThreads = false
	if m.Fail["exportfs -ra"] == nil {
		m.readExports()
	}
	m.NFSD.Conf, m.NFSD.DropIn = m.Files[nfsConf].Content, m.text(nfsServer)
	m.NFSD.Exported = slices.Clone(m.Table)
	daemon := m.Units[nfsdcld]
	m.NFSD.OtherTracking = daemon == nil || !daemon.Active || m.NFSD.opening
}

// stopNFSD is what its unit does: exportfs -au.
func (m *Machine) stopNFSD() { m.Table = nil }

// openRecord opens nfsdcld's database, or makes a new one.
func (m *Machine) openRecord() {
	m.NFSD.Record = "/var/lib/nfs/nfsdcld"
	if directory := setting(m.Files[nfsConf].Content, "storagedir"); directory != "" {
		m.NFSD.Record = directory
	}
	database := path.Join(m.NFSD.Record, "main.sqlite")
	onVolume := slices.ContainsFunc(m.MountTable, func(mount host.Mount) bool { return strings.HasPrefix(database, mount.Point+"/") })
	m.NFSD.opening = m.NFSD.SlowVolume && onVolume && !strings.Contains(m.Units[nfsdcld].Loaded, "ExecStartPre=-/usr/bin/dd if="+database+" ")
	if _, ok := m.Files[database]; !ok {
		m.Files[database] = FileState{"new", 0o644}
	}
}

// wanted boots what the unit of the NFS server or of nfsdcld wants first, and reports whether
// its conditions hold.
func (m *Machine) wanted(name string, u *UnitState) error {
	if name == nfsServer && m.Units[nfsdcld] != nil {
		_ = m.boot(nfsdcld)
		if strings.Contains(u.Loaded, "is-active "+nfsdcld) && !m.Units[nfsdcld].Active {
			return errors.New("failed: " + nfsdcld + " is not active")
		}
	}
	if point := setting(u.Loaded, "ConditionPathIsMountPoint"); point != "" {
		for other, mount := range m.Units {
			if setting(mount.Loaded, "Where") == point {
				_ = m.boot(other)
			}
		}
		if m.mountedAt(point) == nil {
			return errSkipped
		}
	}
	return nil
}

// errSkipped says that a condition of a unit does not hold.
var errSkipped = errors.New("skipped")

// releaseRecord is what stopping a mount does to nfsdcld, which has a file open there.
func (m *Machine) releaseRecord(where string) error {
	u := m.Units[nfsdcld]
	if u == nil || !u.Active || !strings.HasPrefix(m.NFSD.Record, where+"/") {
		return nil
	}
	if !strings.HasPrefix(setting(u.Loaded, "RequiresMountsFor"), where+"/") {
		return errors.New("failed: target is busy")
	}
	u.Active = false
	return nil
}

func (m *Machine) recordFiles() []string {
	if m.NFSD.opening {
		m.NFSD.opening = false // it has, when it is asked again
		return []string{"/dev/null"}
	}
	files := []string{"/dev/null", path.Join(m.NFSD.Record, "main.sqlite")}
	if m.unit(nfsServer).Active && !m.NFSD.OtherTracking {
		files = append(files, "/run/rpc_pipefs/nfsd/cld")
	}
	return files
}

func (m *Machine) stateOfNFSD() host.NFSState {
	if u := m.Units[nfsServer]; u == nil || !u.Active || m.NFSD.NoThreads {
		return host.NFSState{}
	}
	return host.NFSState{Threads: 8, Clients: m.NFSD.Clients, Version3: !strings.Contains(m.NFSD.Conf, "vers3=n")}
}
