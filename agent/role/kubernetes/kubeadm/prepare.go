package kubeadm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// prepareGroup is the group of the actions that prepare the machine.
const prepareGroup = "prepare"

// preparation is a plan that is being made.
type preparation struct {
	*Machine
	desired *api.NodeConfig
	section *api.KubernetesSection
	// joined says that the machine is a member, and from is its version if it is to be upgraded.
	joined bool
	from   string
	// documents are kubeadm's documents of the file, once it is downloaded.
	documents []document
	actions   []converge.Action
	errs      []error
}

func (p *preparation) do(summary string, f func(context.Context) error) {
	p.actions = append(p.actions, converge.Action{Summary: summary, Group: prepareGroup, Do: f})
}

func (p *preparation) problem(err error) {
	if err != nil {
		p.errs = append(p.errs, err)
	}
}

// Prepare plans what the machine needs before kubeadm can make it a member or upgrade it, and what
// is left to do after an upgrade, and says what the machine lacks.
func (m *Machine) Prepare(ctx context.Context, desired *api.NodeConfig) ([]converge.Action, error) {
	p, err := m.prepare(ctx, desired)
	err = errors.Join(err, p.masters())
	if err == nil && len(p.actions) == 0 && p.from != "" {
		err = converge.Wait(api.ReasonConverging, "kubeadm %s is installed, and upgrades this member from %s; see %s", p.section.Version, p.from, api.ConditionClusterMember)
	}
	return p.actions, err
}

func (m *Machine) prepare(ctx context.Context, desired *api.NodeConfig) (p *preparation, err error) {
	p = &preparation{Machine: m, desired: desired, section: desired.Kubernetes}
	if p.joined, err = m.Joined(); err != nil {
		return p, err
	}
	if p.joined {
		if p.from, err = m.behind(ctx, p.section); err != nil {
			return p, err
		}
	}
	if err := p.install(ctx); err != nil || len(p.actions) > 0 {
		return p, err // which programs the machine has is known after that
	}
	if err := p.programs(ctx); err != nil {
		p.actions = nil
		return p, err
	}
	p.problem(p.file())
	p.problem(p.swap())
	p.problem(p.cgroups())
	p.problem(p.kernel())
	if !p.joined {
		p.problem(p.networks())
	}
	if len(p.errs) == 0 {
		p.problem(p.images(ctx))
	}
	if !p.joined && desired.Role == api.RoleMaster && len(p.errs) == 0 {
		p.problem(p.check())
	}
	return p, errors.Join(p.errs...)
}

// programs says which program is missing or has another version, and plans that kubelet starts
// at boot, and again after an upgrade.
func (p *preparation) programs(ctx context.Context) error {
	found, err := p.Host.Kubeadm.Versions(ctx)
	if err != nil {
		return err
	}
	o, err := p.owned()
	if err != nil {
		return err
	}
	wanted := p.section.Version
	if o.Attempt == joining && found.Kubeadm == o.Version { // it is upgraded once it is a member
		wanted = o.Version
	}
	for _, program := range []struct{ name, version string }{{kubeadmProgram, found.Kubeadm}, {kubeletProgram, found.Kubelet}} {
		switch program.version {
		case "":
			return converge.Wait(api.ReasonProgramMissing, "%s is not on this machine; expected that of Kubernetes %s%s", program.name, wanted, p.inNoArchive())
		case wanted:
		default:
			if program.name == kubeletProgram && p.from != "" { // kubeadm comes first
				continue
			}
			return converge.Wait(api.ReasonVersionDiffers, "%s is of version %s; expected %s%s", program.name, program.version, wanted, p.replace(o, program.name))
		}
	}
	unit, err := p.Host.Units.Unit(ctx, kubeletService)
	switch {
	case err != nil:
		return err
	case unit.Loaded == "not-found" && slices.Contains(o.Programs, programDirectory+"/"+kubeletProgram):
		p.do("write "+kubeletService+" and enable it", p.writeUnit)
	case unit.Loaded != "loaded":
		return converge.Wait(api.ReasonProgramMissing, "%s is %s: systemd cannot start kubelet; install the package of kubelet with its unit", kubeletService, unit.Loaded)
	case unit.File == "disabled":
		p.do("enable "+kubeletService, p.enableKubelet)
	}
	if err := p.syncBeforeKubelet(unit); err != nil {
		return err
	}
	if o.Restart && p.from == "" {
		p.do("restart "+kubeletService, p.restartKubelet)
	}
	return nil
}

// replace says what to do about a program of another version on a member. The agent replaces only
// those that it has put there.
func (p *preparation) replace(o owned, program string) string {
	switch {
	case slices.Contains(o.Programs, programDirectory+"/"+program):
		return ", which an archive of program_archive_paths must have"
	case p.from != "":
		return fmt.Sprintf(": replace %s first, and leave kubelet as it is; the agent then upgrades this member from %s, and says here when kubelet is to be replaced", program, p.from)
	case o.Restart:
		return ": kubeadm has upgraded this member, so replace kubelet now; the agent then restarts it"
	}
	return ""
}

// file plans the download of kubeadm's configuration.
func (p *preparation) file() (err error) {
	p.documents, err = p.ownDocuments(p.section)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ref := *p.section.KubeadmConfig
	p.do(fmt.Sprintf("fetch kubeadm's configuration %.12s", ref.Sha256), func(ctx context.Context) error { return p.Files.Fetch(ctx, ref) })
	return nil
}

// check plans that kubeadm checks the machine as a master, and pulls the images, so that a master
// that waits for its cluster has them.
func (p *preparation) check() error {
	if p.desired.Cluster == nil {
		return nil
	}
	o, err := p.owned()
	if err != nil {
		return err
	}
	key := p.section.Version + " " + p.section.ImageRepository
	if p.section.KubeadmConfig != nil {
		key += " " + p.section.KubeadmConfig.Sha256
	}
	sum := sha256.Sum256([]byte(key))
	identity := hex.EncodeToString(sum[:])
	if o.Checked == identity || o.Attempt != "" { // it would find what the attempt has left
		return nil
	}
	p.do("check this machine and pull the images (kubeadm init phase preflight)", func(ctx context.Context) error {
		documents, err := p.initDocuments(p.desired, nil)
		if err != nil {
			return err
		}
		config, err := p.config(p.desired.Cluster, documents...)
		if err != nil {
			return err
		}
		if err := p.Host.Kubeadm.Validate(ctx, config); err != nil {
			return explain("checking the configuration", api.ReasonJoinFailed, err)
		}
		if err := p.Host.Kubeadm.Preflight(ctx, config); err != nil {
			return explain("checking this machine", api.ReasonJoinFailed, err)
		}
		return p.own(func(o *owned) { o.Checked = identity })
	})
	return nil
}
