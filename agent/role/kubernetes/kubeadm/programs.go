package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

const (
	// programDirectory is where programs are put. No package manager has files there.
	programDirectory = "/usr/local/bin"
	// pluginDirectory is where containerd looks for CNI plugins if it does not say so.
	pluginDirectory = "/opt/cni/bin"
	programMode     = 0o755

	kubeadmProgram = "kubeadm"
	kubeletProgram = "kubelet"
)

// install plans that the machine gets the programs of the archives, once for each set of
// archives. A machine that is a member, or may have begun to be one, gets back what is gone of the
// archives that it has, and of others only while it is upgraded: kubeadm, which upgrades the
// member, and the rest after that. A cluster that is not made yet is made with others.
func (p *preparation) install(ctx context.Context) error {
	archives := p.section.ProgramArchives
	if len(archives) == 0 {
		return nil
	}
	o, err := p.owned()
	if err != nil {
		return err
	}
	wanted := identityOf(archives)
	if p.from != "" {
		return p.installUpgrader(ctx, o, wanted)
	}
	complete := o.Installed == wanted
	begun, err := p.begun(o)
	if err != nil || begun && !p.unmade(o) && !complete && !o.Restart {
		return err
	}
	for _, path := range o.Programs {
		there, err := p.exists(path)
		if err != nil {
			return err
		}
		complete = complete && there
	}
	if complete {
		return nil
	}
	p.fetchAll(archives)
	p.do("install the programs of Kubernetes and the CNI plugins that this machine lacks", func(ctx context.Context) error {
		err := p.own(func(o *owned) {
			if o.Installed != wanted {
				o.Installed = ""
			}
		})
		if err != nil {
			return err
		}
		if err := p.unpack(ctx, archives, func(name string) bool { return name != kubeadmProgram || o.Upgrader != wanted }); err != nil {
			return err
		}
		if err := p.own(func(o *owned) { o.Installed, o.Upgrader = wanted, "" }); err != nil {
			return err
		}
		return p.remove(archives)
	})
	return nil
}

// unmade reports whether the machine has begun to make a cluster that nobody knows of yet.
func (p *preparation) unmade(o owned) bool {
	return o.Attempt == initializing && p.desired.Cluster != nil && p.desired.Cluster.CACertificateHash == ""
}

// installUpgrader plans that the agent's own kubeadm is replaced. The archives stay for the rest.
func (p *preparation) installUpgrader(ctx context.Context, o owned, wanted string) error {
	found, err := p.Host.Kubeadm.Versions(ctx)
	if err != nil || found.Kubeadm == p.section.Version || o.Upgrader == wanted || !slices.Contains(o.Programs, programDirectory+"/"+kubeadmProgram) {
		return err
	}
	p.fetchAll(p.section.ProgramArchives)
	p.do("replace kubeadm, which upgrades this member", func(ctx context.Context) error {
		if err := p.unpack(ctx, p.section.ProgramArchives, func(name string) bool { return name == kubeadmProgram }); err != nil {
			return err
		}
		return p.own(func(o *owned) { o.Upgrader = wanted })
	})
	return nil
}

func (p *preparation) fetchAll(archives []api.FileReference) {
	for _, ref := range archives {
		p.fetch("the archive of programs", ref)
	}
}

// fetch plans the download of a file; what is what it is, such as "the archive of images".
func (p *preparation) fetch(what string, ref api.FileReference) {
	p.do(fmt.Sprintf("fetch %s %.12s (%d bytes)", what, ref.Sha256, ref.SizeBytes), func(ctx context.Context) error {
		return p.Files.Fetch(ctx, ref)
	})
}

// identityOf differs if other files, or the same in another order, are named.
func identityOf(files []api.FileReference) string {
	var sums []string
	for _, f := range files {
		sums = append(sums, f.Sha256)
	}
	return strings.Join(sums, " ")
}

// unpack puts those programs of archives into place that are wanted by name.
func (p *preparation) unpack(ctx context.Context, archives []api.FileReference, wanted func(name string) bool) error {
	plugins, err := p.plugins(ctx)
	if err != nil {
		return err
	}
	var taken []string
	for _, ref := range archives {
		err := p.read(ref, func(content io.Reader) error {
			return params.ReadPrograms(content, func(program params.Program, content io.Reader) error {
				if program.Architecture != runtime.GOARCH || !wanted(program.Name) || slices.Contains(taken, program.Name) {
					return nil
				}
				taken = append(taken, program.Name)
				if program.Plugin {
					return p.put(filepath.Join(plugins, program.Name), []string{plugins}, content)
				}
				return p.put(filepath.Join(programDirectory, program.Name), host.ProgramDirectories(), content)
			})
		})
		if wrong := (fault.List)(nil); errors.As(err, &wrong) {
			return converge.Wait(api.ReasonProgramMissing, "the archive of programs %.12s cannot be used: %v", ref.Sha256, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put writes a program to path, unless the machine has it in one of the directories: what the
// image or a package manager has brought is never replaced.
func (p *preparation) put(path string, directories []string, content io.Reader) error {
	o, err := p.owned()
	if err != nil {
		return err
	}
	for _, directory := range directories {
		other := filepath.Join(directory, filepath.Base(path))
		there, err := p.exists(other)
		if err != nil {
			return err
		}
		if there && !slices.Contains(o.Programs, other) {
			p.Log.Info("a program of the package is not installed: the machine has it", "path", other)
			return nil
		}
	}
	err = p.own(func(o *owned) {
		if !slices.Contains(o.Programs, path) {
			o.Programs = append(o.Programs, path)
		}
	})
	if err != nil {
		return err
	}
	return p.Host.Files.WriteFrom(path, content, programMode)
}

// plugins is where containerd looks for CNI plugins.
func (p *preparation) plugins(ctx context.Context) (string, error) {
	c, err := containerdconf.ReadMachine(ctx, p.Host)
	if err != nil {
		return "", err
	}
	if c.Config.CNIPlugins == "" {
		return pluginDirectory, nil
	}
	return c.Config.CNIPlugins, nil
}

// read opens a file that has been fetched.
func (p *preparation) read(ref api.FileReference, do func(io.Reader) error) error {
	file, err := p.Files.Open(ref)
	if err != nil {
		return err
	}
	defer file.Close()
	return do(file)
}

func (p *preparation) remove(files []api.FileReference) error {
	var errs []error
	for _, ref := range files {
		errs = append(errs, p.Files.Remove(ref))
	}
	return errors.Join(errs...)
}

// inNoArchive says that archives do not have a program that is missing.
func (p *preparation) inNoArchive() string {
	if len(p.section.ProgramArchives) == 0 {
		return ""
	}
	return fmt.Sprintf(", for %s in an archive of program_archive_paths", runtime.GOARCH)
}

const (
	unitFile = "/etc/systemd/system/kubelet.service"
	dropIn   = "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf"

	// unitText and dropInText are those of Kubernetes' own packages, with another path.
	unitText = `# Written by nodehitch-agent.
[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=` + programDirectory + `/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
`
	dropInText = `# Written by nodehitch-agent.
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
# kubeadm init and kubeadm join write KUBELET_KUBEADM_ARGS.
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
# For flags of the owner of the machine.
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=` + programDirectory + `/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`
)

// writeUnit writes the unit last: if it is there, so is its drop-in.
func (p *preparation) writeUnit(ctx context.Context) error {
	for _, file := range []struct{ path, text string }{{dropIn, dropInText}, {unitFile, unitText}} {
		if err := p.Host.Files.Write(file.path, []byte(file.text), publicMode); err != nil {
			return err
		}
	}
	if err := p.Host.Units.Reload(ctx); err != nil {
		return err
	}
	return p.enableKubelet(ctx)
}

func (p *preparation) enableKubelet(ctx context.Context) error {
	return errors.Join(p.Host.Units.Enable(ctx, kubeletService), p.Host.Units.Reload(ctx))
}

// restartKubelet lets the kubelet run that is installed, with the unit that is.
func (p *preparation) restartKubelet(ctx context.Context) error {
	if err := p.Host.Units.Reload(ctx); err != nil {
		return err
	}
	var failed *host.JobError
	if err := p.Host.Units.Restart(ctx, kubeletService); errors.As(err, &failed) {
		return converge.Wait(api.ReasonUpgradeFailed, "%v", err)
	} else if err != nil {
		return err
	}
	return p.own(func(o *owned) { o.Restart = false })
}
