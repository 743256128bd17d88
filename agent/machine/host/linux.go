package host

import (
	"log/slog"
	"net"
)

// Linux is the machine that this process runs on.
func Linux(log *slog.Logger) *Host { return LinuxAt(MachinePaths, log) }

// LinuxAt is Linux with other paths, for tests with real disks under other names.
func LinuxAt(paths Paths, log *slog.Logger) *Host {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	changes := &Changes{}
	run := &Runner{Log: log, Changes: changes}
	mounts := &mountTable{changes: changes, proc: paths.Proc}
	return &Host{
		Files:       &files{changes: changes},
		Directories: &directories{changes: changes, log: log, unguardable: map[string]bool{}},
		Disks:       &disks{paths: paths, run: run, mounts: mounts},
		Mounts:      mounts,
		Units:       &systemd{run: run, changes: changes, proc: paths.Proc},
		Packages:    packages(paths, run),
		NFS:         &nfs{run: run, resolver: net.DefaultResolver, proc: paths.Proc},
		Programs:    &enginePrograms{run: run},
		Engine:      newDocker(paths.EngineSocket, changes),
		Ports:       &ports{proc: paths.Proc},
		Kernel:      &linuxKernel{proc: paths.Proc, run: run, changes: changes},
		Kubeadm:     &kubeadm{run: run, directory: paths.Kubeadm, etcdCopies: paths.EtcdCopies},
		Processes:   &processes{proc: paths.Proc, log: log, changes: changes},
		Images:      &images{run: run},
		Keepalived:  &keepalived{run: run},
		Changes:     changes,
	}
}
