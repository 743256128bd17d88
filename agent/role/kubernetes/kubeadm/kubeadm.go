// Package kubeadm makes a machine a member of the cluster that its configuration describes, by
// kubeadm: it prepares the machine, makes kubeadm's documents, and decides whether the machine
// makes a cluster, joins one, or finishes what an earlier attempt has begun.
package kubeadm

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/inventory"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// KubeletKubeconfig is kubelet's, which exists once the machine has joined, or while it joins or a cluster
// is made on it.
const KubeletKubeconfig = "/etc/kubernetes/kubelet.conf"

const kubeletPKI = "/var/lib/kubelet/pki/"

// kubeletCertificate is what that file names once kubelet has joined with a token. The file is there
// earlier: kubelet writes it when it starts, before it asks for the certificate.
const kubeletCertificate = kubeletPKI + "kubelet-client-current.pem"

// What kubeadm and kubelet have besides.
const (
	adminKubeconfig     = "/etc/kubernetes/admin.conf"
	bootstrapKubeconfig = "/etc/kubernetes/bootstrap-kubelet.conf"
	caFile              = "/etc/kubernetes/pki/ca.crt"
	kubeletService      = "kubelet.service"
)

// Files are the files that the configuration names; files.Store has them.
type Files interface {
	// Fetch downloads and verifies the file.
	Fetch(ctx context.Context, ref api.FileReference) error
	// Open opens the file; fs.ErrNotExist if it does not exist.
	Open(ref api.FileReference) (*os.File, error)
	// Remove removes the file.
	Remove(ref api.FileReference) error
}

// Options are all required, but EtcdEndpoint, Now and Log.
type Options struct {
	Host  *host.Host
	Files Files
	// StateDirectory is where inventory.json is.
	StateDirectory string
	// ServerID is this machine's.
	ServerID string
	// EtcdEndpoint is the URL of etcd; "" = etcd.DefaultEndpoint.
	EtcdEndpoint string
	// Now is the clock; nil = time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Machine is this machine, whose configuration has the section kubernetes.
type Machine struct {
	Options
	inventory inventory.File
	etcd      etcd.Access
	access    kubeapi.Access
	// unhealthySince is since when the etcd that an attempt to make the cluster has left does not serve.
	unhealthySince time.Time
}

// New is the machine.
func New(o Options) *Machine {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Machine{
		Options:   o,
		inventory: inventory.File{Files: o.Host.Files, Path: filepath.Join(o.StateDirectory, "inventory.json")},
		etcd:      etcd.Access{Host: o.Host, Endpoint: o.EtcdEndpoint},
		access:    kubeapi.Access{Host: o.Host, Rights: "get the ConfigMap kube-system/kubeadm-config"},
	}
}

// inventoryKind is the role's member of the inventory.
const inventoryKind = "kubernetes"

// owned is what the role has done on this machine, as the inventory records it.
type owned struct {
	// Checked identifies what kubeadm has checked the machine, and pulled the images, for.
	Checked string `json:"checked,omitempty"`
	// Attempt is what kubeadm was started for and is not known to have finished: initializing or
	// joining, "" for nothing. It is recorded before kubeadm is.
	Attempt attempt `json:"attempt,omitempty"`
	// Version is that of the kubeadm that has begun to make this machine a member, or has upgraded
	// it last; "" if the agent has done neither.
	Version string `json:"version,omitempty"`
	// Applying is the version for which `kubeadm upgrade apply` was started and is not known to have
	// finished. It is recorded before kubeadm is.
	Applying string `json:"applying,omitempty"`
	// Restart says that kubeadm has upgraded this member, and kubelet was not restarted since.
	Restart bool `json:"restart,omitempty"`
	// Masters are the addresses that masters of this instance have or had.
	Masters []string `json:"masters,omitempty"`
	// Programs are the paths of those that the agent has put on the machine, and Installed
	// identifies the archives that they are of, "" while that is not finished.
	Programs  []string `json:"programs,omitempty"`
	Installed string   `json:"installed,omitempty"`
	// Upgrader identifies the archives that kubeadm is of while the others are of earlier ones.
	Upgrader string `json:"upgrader,omitempty"`
	// Images are the names of the images of each archive that containerd has been given, by its
	// SHA-256. Importing is that of the archive that was being imported, and was not on the disk yet.
	Images    map[string][]string `json:"images,omitempty"`
	Importing string              `json:"importing,omitempty"`
}

type attempt string

const (
	initializing attempt = "init"
	joining      attempt = "join"
)

func (m *Machine) owned() (o owned, err error) {
	return o, m.inventory.Read(inventoryKind, &o)
}

// own changes the inventory.
func (m *Machine) own(change func(*owned)) error {
	o, err := m.owned()
	if err != nil {
		return err
	}
	change(&o)
	return m.inventory.Write(inventoryKind, o)
}

// done records what kubeadm has finished, once its files are on the disk.
func (m *Machine) done(change func(*owned)) error {
	if err := m.Host.Kubeadm.Sync(); err != nil {
		return err
	}
	return m.own(change)
}

// Joined reports whether the machine is a member, as far as the machine itself can tell: kubelet
// has credentials, and no attempt of kubeadm's is unfinished.
func (m *Machine) Joined() (bool, error) {
	o, err := m.owned()
	if err != nil || o.Attempt != "" {
		return false, err
	}
	return m.exists(KubeletKubeconfig)
}

// begun reports whether the machine is a member, or may have begun to be one.
func (m *Machine) begun(o owned) (bool, error) {
	if o.Attempt != "" {
		return true, nil
	}
	return m.exists(KubeletKubeconfig)
}

// Serves reports whether the address that the masters share may lead to this machine: it has a
// control plane of this cluster, or makes the cluster. If it has that of another cluster, the error says
// so. Any other error leaves it open, and the machine goes on.
func (m *Machine) Serves(desired *api.NodeConfig) (bool, error) {
	o, err := m.owned()
	if err != nil || desired.Cluster.Initialize || o.Attempt == initializing {
		return true, err
	}
	joined, err := m.Joined()
	if !joined || err != nil {
		return err != nil, err
	}
	hash := desired.Cluster.CACertificateHash
	foreign, err := m.foreign(hash)
	if foreign {
		err = converge.Wait(api.ReasonAddressUnavailable,
			"this master takes no part in holding %s: %s and %s have the authority of another cluster, expected the one with the hash %s; if this machine may leave that cluster, `kubeadm reset`; the agent then joins it",
			shared(desired), caFile, KubeletKubeconfig, hash)
	}
	return !foreign, err
}

// InterfaceOf is the name of the interface that has an address, "" if none has.
func (m *Machine) InterfaceOf(address string) (string, error) {
	all, err := m.Host.Kernel.Addresses()
	if err != nil {
		return "", err
	}
	wanted, err := netip.ParseAddr(address)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(all[name], wanted) {
			return name, err
		}
	}
	return "", err
}

func (m *Machine) exists(path string) (bool, error) {
	_, err := m.Host.Files.Mode(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
