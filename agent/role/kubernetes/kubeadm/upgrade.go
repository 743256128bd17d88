package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A member is upgraded in this order, each part by what the machine and its inventory say, so that
// an upgrade that was cut off is continued:
//   - Prepare replaces the agent's own kubeadm, and imports the images;
//   - Upgrade lets kubeadm upgrade the member, and on the first master the cluster's configuration;
//   - Prepare replaces the agent's other programs, and restarts kubelet.

// upgradeGroup is the group of the actions that upgrade the member.
const upgradeGroup = "upgrade"

// behind is the version of the member, "" if it is the section's. A member is never made older.
func (m *Machine) behind(ctx context.Context, section *api.KubernetesSection) (string, error) {
	o, err := m.owned()
	if err != nil {
		return "", err
	}
	is := o.Version
	if is == "" { // an operator has made it a member
		found, err := m.Host.Kubeadm.Versions(ctx)
		if err != nil {
			return "", err
		}
		is = found.Kubelet
	}
	if is == section.Version || is == "" {
		return "", nil
	}
	newer, err := newer(is, section.Version)
	if newer {
		return "", converge.Wait(api.ReasonVersionDiffers, "this member is of version %s, and no member is made older; expected version %s or later in kubernetes", is, is)
	}
	return is, err
}

func newer(a, b string) (bool, error) {
	first, err := version.ParseSemantic(a)
	if err != nil {
		return false, err
	}
	second, err := version.ParseSemantic(b)
	return err == nil && second.LessThan(first), err
}

// Upgrade plans what kubeadm does on a member that is behind the section; nothing on any other
// machine. Errors say why it has to wait.
func (m *Machine) Upgrade(ctx context.Context, desired *api.NodeConfig) ([]converge.Action, error) {
	joined, err := m.Joined()
	if !joined || err != nil {
		return nil, err
	}
	from, _ := m.behind(ctx, desired.Kubernetes) // Prepare says an error
	if from == "" {
		return nil, nil
	}
	if p, err := m.prepare(ctx, desired); err != nil || len(p.actions) > 0 {
		return nil, converge.Wait(api.ReasonVersionDiffers, "this member is of version %s, and not prepared to be upgraded to %s; the condition %s says why",
			from, desired.Kubernetes.Version, api.ConditionKubernetesInstalled)
	}
	u := &upgrade{Machine: m, desired: desired, version: desired.Kubernetes.Version, ignored: m.unverifiable(desired.Kubernetes)}
	if desired.Role != api.RoleMaster {
		u.node()
		return u.actions, nil
	}
	if err := u.manifests(); err != nil || len(u.actions) > 0 {
		return u.actions, err
	}
	return u.actions, u.master(ctx)
}

// upgrade is a plan that is being made.
type upgrade struct {
	*Machine
	desired *api.NodeConfig
	version string
	// ignored are kubeadm's checks that do not count.
	ignored []string
	actions []converge.Action
}

func (u *upgrade) do(summary string, f func(context.Context) error) {
	u.actions = append(u.actions, converge.Action{Summary: summary, Group: upgradeGroup, Do: f})
}

func (u *upgrade) node() {
	u.do("upgrade this member to "+u.version+" (kubeadm upgrade node)", func(ctx context.Context) error {
		if err := u.PassAddressOn(ctx, u.desired); err != nil {
			return err
		}
		if err := u.Host.Kubeadm.UpgradeNode(ctx, u.ignored); err != nil {
			return u.failed(err)
		}
		return u.upgraded()
	})
}

// upgraded records that kubeadm has upgraded this member, and removes the snapshots of before
// earlier upgrades: they have the cluster's Secrets, and would fill the disk.
func (u *upgrade) upgraded() error {
	if err := u.done(func(o *owned) { o.Version, o.Restart, o.Applying = u.version, true, "" }); err != nil {
		return err
	}
	all, err := u.Host.Files.Match(u.snapshotFile("*"))
	errs := []error{err}
	for _, path := range all {
		of := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), snapshotPrefix), snapshotSuffix)
		if earlier, err := newer(u.version, of); earlier && err == nil {
			errs = append(errs, u.Host.Files.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// master lets the first master upgrade the cluster's configuration, too, after a snapshot.
func (u *upgrade) master(ctx context.Context) error {
	o, err := u.owned()
	if err != nil {
		return err
	}
	again := o.Applying == u.version
	if !again {
		first, err := u.first(ctx)
		if err != nil {
			return err
		}
		if !first {
			u.node()
			return nil
		}
		u.do("write a snapshot of etcd to "+u.snapshotFile(u.version), u.snapshot)
	}
	u.do("upgrade the cluster's configuration and this master to "+u.version+" (kubeadm upgrade apply)", func(ctx context.Context) error {
		if err := u.PassAddressOn(ctx, u.desired); err != nil {
			return err
		}
		if err := u.own(func(o *owned) { o.Applying = u.version }); err != nil {
			return err
		}
		err := u.Host.Kubeadm.UpgradeApply(ctx, u.version, append(u.ignored, createJob))
		switch {
		case err == nil:
			return u.upgraded()
		case !again && refused(err): // nothing has begun, and the next attempt has a snapshot of its own
			return errors.Join(u.failed(err), u.own(func(o *owned) { o.Applying = "" }))
		}
		return u.failed(err)
	})
	return nil
}

// createJob is kubeadm's check that a Pod of its own runs somewhere within 15 seconds. The only
// Nodes that take Pods may lack its image, and have no registry.
const createJob = "CreateJob"

func (u *upgrade) failed(err error) error {
	doing := "upgrading this member to " + u.version
	if file := u.Snapshot(u.version); file != "" {
		doing += fmt.Sprintf(" (%s has etcd's data of before)", file)
	}
	return explain(doing, api.ReasonUpgradeFailed, err)
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// first reports whether no other master has upgraded the cluster's configuration yet.
func (u *upgrade) first(ctx context.Context) (bool, error) {
	c, err := u.access.Connect()
	if err != nil {
		return false, err
	}
	found, err := c.Resource(configMaps).Namespace("kube-system").Get(ctx, "kubeadm-config", metav1.GetOptions{})
	if err != nil {
		return false, c.Explain(err)
	}
	text, _, _ := unstructured.NestedString(found.Object, "data", clusterKind)
	var cluster struct {
		KubernetesVersion string `json:"kubernetesVersion"`
	}
	if err := yaml.Unmarshal([]byte(text), &cluster); err != nil {
		return false, err
	}
	later, err := newer(cluster.KubernetesVersion, u.version)
	if err != nil {
		return false, converge.Wait(api.ReasonUpgradeFailed, "kubernetesVersion of %s in the ConfigMap kube-system/kubeadm-config is %.50q: %v", clusterKind, cluster.KubernetesVersion, err)
	}
	if later {
		return false, converge.Wait(api.ReasonUpgradeFailed, "the cluster is of version %s, by the ConfigMap kube-system/kubeadm-config; expected at most %s, to which this member is to be upgraded", cluster.KubernetesVersion, u.version)
	}
	return cluster.KubernetesVersion != "v"+u.version, nil
}

const (
	snapshotPrefix = "etcd-before-"
	snapshotSuffix = ".db"
)

func (m *Machine) snapshotFile(version string) string {
	return filepath.Join(m.StateDirectory, snapshotPrefix+version+snapshotSuffix)
}

// Snapshot is the path of the snapshot of etcd that this master has written before the upgrade to
// a version, "" if it has none.
func (m *Machine) Snapshot(version string) string {
	path := m.snapshotFile(version)
	if there, err := m.exists(path); err != nil || !there {
		return ""
	}
	return path
}

// rootMode is for what has the cluster's secrets, and for manifests.
const rootMode = 0o600

// snapshot writes etcd's data, unless the cluster's etcd is elsewhere. kubeadm copies as much again
// before it upgrades etcd, and etcd stops if its disk is full.
func (u *upgrade) snapshot(ctx context.Context) error {
	client, err := u.etcd.Open()
	if client == nil || err != nil {
		return err
	}
	s, err := client.Snapshot(ctx)
	if err != nil {
		return u.unsaved(err)
	}
	defer s.Close()
	free, err := u.Host.Files.Free(u.StateDirectory)
	if err != nil {
		return u.unsaved(err)
	}
	if needed := 2 * s.Size; free < needed {
		return u.unsaved(fmt.Errorf("it has %d bytes, and kubeadm copies as many; expected %d bytes in %s, where %d are free: %w", s.Size, needed, u.StateDirectory, free, syscall.ENOSPC))
	}
	return u.unsaved(u.Host.Files.WriteFrom(u.snapshotFile(u.version), s, rootMode))
}

// unsaved keeps the reason of a full disk.
func (u *upgrade) unsaved(err error) error {
	if err == nil || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return converge.Wait(api.ReasonUpgradeFailed, "etcd's snapshot before the upgrade to %s: %v; nothing was upgraded", u.version, err)
}

// manifests plans to put back the manifests of components that a killed kubeadm has moved away and
// not replaced, or a power failure has emptied. kubeadm does not do that, and without them no API
// server may run that it could ask.
func (u *upgrade) manifests() error {
	for _, component := range []string{Etcd, APIServer, ControllerManager, Scheduler} {
		path := directory + "manifests/" + component + ".yaml"
		lost, err := u.isEmpty(path)
		if err != nil {
			return err
		}
		copies, err := u.Host.Files.Match(directory + "tmp/kubeadm-backup-manifests-*/" + component + ".yaml")
		if err != nil {
			return err
		}
		if !lost || len(copies) == 0 {
			continue
		}
		last := slices.Max(copies) // their names have the time
		u.do("put back "+path+", which an unfinished upgrade has moved to "+last, func(context.Context) error {
			content, err := u.Host.Files.Read(last)
			if err != nil {
				return err
			}
			return u.Host.Files.Write(path, content, rootMode)
		})
	}
	return nil
}
