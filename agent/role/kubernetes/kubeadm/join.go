package kubeadm

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// joinGroup is the group of the actions that make the machine a member.
const joinGroup = "join"

// Join plans what makes the machine a member, nothing if it is one already. Errors say why it
// has to wait.
func (m *Machine) Join(ctx context.Context, desired *api.NodeConfig) ([]converge.Action, error) {
	joined, err := m.Joined()
	if joined || err != nil {
		return nil, err
	}
	if actions, err := m.Prepare(ctx, desired); err != nil || len(actions) > 0 {
		return nil, converge.Wait(api.ReasonNotJoined, "this machine is not prepared for kubeadm; the condition %s says why", api.ConditionKubernetesInstalled)
	}
	next, err := m.next(ctx, desired)
	if err != nil {
		return nil, err
	}
	next.Group = joinGroup
	return []converge.Action{next}, nil
}

// next is the one thing to do.
func (m *Machine) next(ctx context.Context, desired *api.NodeConfig) (converge.Action, error) {
	var none converge.Action
	o, err := m.owned()
	if err != nil {
		return none, err
	}
	own, err := m.authority()
	if err != nil {
		return none, err
	}
	data, err := m.Host.Files.Match(etcdData)
	if err != nil {
		return none, err
	}
	var left []string // of a cluster
	if own != "" {
		left = append(left, caFile)
	}
	if len(data) > 0 {
		left = append(left, etcdMember)
	}
	c := desired.Cluster
	hash := c.CACertificateHash
	switch {
	case c.Initialize && (o.Attempt != joining || left == nil):
		if o.Attempt == initializing && hash == "" && len(data) > 0 {
			switch remove, err := m.remakeEtcd(ctx); {
			case err != nil:
				return none, err
			case remove != nil:
				return *remove, nil
			}
		}
		return m.makeCluster(desired)
	case c.Initialize:
		return none, converge.Wait(api.ReasonJoinFailed, "this machine is to make the cluster, and has %s, which an unfinished join of an earlier cluster has left: `kubeadm reset`, and remove what that leaves; the agent then continues", strings.Join(left, " and "))
	case hash == "":
		return none, converge.Wait(api.ReasonWaitingForCluster, "no master has made the cluster yet; this machine joins it after that")
	case own != "" && own != hash:
		return none, converge.Wait(api.ReasonJoinFailed, "%s is the authority of another cluster: its hash is %s, expected %s; if this machine may leave that cluster, `kubeadm reset`; the agent then joins it", caFile, own, hash)
	case o.Attempt == initializing && own == hash:
		return m.makeCluster(desired) // others have learned of it before it was complete
	}
	lost, err := m.isEmpty(etcdManifest)
	if err != nil {
		return none, err
	}
	credentials, err := m.exists(kubeletCertificate)
	switch {
	case err != nil:
		return none, err
	case lost && len(data) > 0 && o.Attempt == joining:
		return m.restoreEtcd(desired), nil
	case credentials && o.Attempt == joining:
		return m.finish(desired), nil
	}
	return m.join(desired), nil
}

// makeCluster waits until the endpoint leads to this machine: kubeadm waits for an answer there.
func (m *Machine) makeCluster(desired *api.NodeConfig) (converge.Action, error) {
	next, shared := m.initialize(desired), shared(desired)
	if shared == "" {
		return next, nil
	}
	name, err := m.InterfaceOf(shared)
	if err == nil && name == "" {
		err = converge.Wait(api.ReasonNotJoined, "this machine does not hold %s, the address of the cluster's endpoint, yet; the condition %s says why", shared, api.ConditionControlPlaneHealthy)
	}
	return next, err
}

func (m *Machine) initialize(desired *api.NodeConfig) converge.Action {
	return converge.Action{Summary: "make the cluster (kubeadm init)", Do: func(ctx context.Context) error {
		return m.attempt(ctx, initializing, "making the cluster", func(again bool) error {
			documents, err := m.initDocuments(desired, ignoring(again, desired.Cluster))
			if err != nil {
				return err
			}
			config, err := m.config(desired.Cluster, documents...)
			if err != nil {
				return err
			}
			return m.Host.Kubeadm.Init(ctx, config)
		})
	}}
}

func (m *Machine) join(desired *api.NodeConfig) converge.Action {
	return converge.Action{Summary: "join the cluster (kubeadm join)", Do: func(ctx context.Context) error {
		return m.attempt(ctx, joining, "joining the cluster", func(again bool) error {
			document := m.joinDocument(desired, ignoring(again, desired.Cluster))
			if again && m.votes(ctx, desired.Cluster) {
				document["skipPhases"] = []any{"etcd-join"} // kubeadm would wait in vain to give it a vote
			}
			config, err := m.config(desired.Cluster, document)
			if err != nil {
				return err
			}
			return m.Host.Kubeadm.Join(ctx, config)
		})
	}}
}

// finish ends an attempt to join that was cut off after kubelet had got its credentials. On a
// worker nothing is left to do but to forget the token.
func (m *Machine) finish(desired *api.NodeConfig) converge.Action {
	return converge.Action{Summary: "finish joining the cluster", Do: func(ctx context.Context) error {
		return m.attempt(ctx, joining, "finishing to join the cluster", func(bool) error {
			if err := m.restoreKubeconfig(desired.Cluster); err != nil {
				return err
			}
			if desired.Role != api.RoleMaster {
				return m.Host.Files.Remove(bootstrapKubeconfig)
			}
			authority, err := m.exists(caFile)
			if err != nil {
				return err
			}
			config, err := m.config(desired.Cluster, m.finishDocument(desired, authority))
			if err != nil {
				return err
			}
			return errors.Join(m.Host.Kubeadm.Join(ctx, config), m.Host.Files.Remove(bootstrapKubeconfig))
		})
	}}
}

// attempt records an attempt before it begins, and that it has finished. again says that an
// earlier one has not. An attempt that kubeadm has refused before it changed anything was none.
func (m *Machine) attempt(ctx context.Context, what attempt, doing string, do func(again bool) error) error {
	before, err := m.owned()
	if err != nil {
		return err
	}
	found, err := m.Host.Kubeadm.Versions(ctx)
	if err != nil {
		return err
	}
	if err := m.own(func(o *owned) { o.Attempt, o.Version = what, found.Kubeadm }); err != nil {
		return err
	}
	again := before.Attempt != ""
	if again {
		if err := m.removeLost(before.Attempt); err != nil {
			return err
		}
	}
	err = do(again)
	switch {
	case err == nil:
		if err := m.syncNoMore(ctx); err != nil {
			return err
		}
		return m.done(func(o *owned) { o.Attempt = "" })
	case !again && refused(err):
		return errors.Join(explain(doing, api.ReasonJoinFailed, err), m.own(func(o *owned) { o.Attempt = "" }))
	}
	return explain(doing, api.ReasonJoinFailed, err)
}

// votes reports whether the etcd of this master has a vote in the cluster: a killed kubeadm may
// have given it one. One that has none, or has no leader, lists no members.
func (m *Machine) votes(ctx context.Context, c *api.ClusterSection) bool {
	client, err := m.etcd.Open()
	if client == nil || err != nil {
		return false
	}
	members, err := client.Members(ctx)
	own := etcd.Of(members, []etcd.Machine{{Addresses: []string{m.Address(c)}}}, nil)
	return err == nil && slices.ContainsFunc(own, func(member etcd.Member) bool { return !member.Learner })
}

func ignoring(again bool, c *api.ClusterSection) []string {
	if !again {
		return nil
	}
	return repeated(c)
}

// authority is "sha256:<hex>" of the public key of the cluster's authority that this machine
// has, "" if it has none.
func (m *Machine) authority() (string, error) {
	content, err := m.Host.Files.Read(caFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	certificate := parse(content)
	if certificate == nil { // it was cut off while it was written, or is none of kubeadm's: kubeadm says so
		return "", nil
	}
	return hashOf(certificate), nil
}

func hashOf(authority *x509.Certificate) string {
	sum := sha256.Sum256(authority.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// foreign reports whether this member has authorities, and none with the hash of its cluster's. It has
// several while an operator replaces one, and its kubeconfigs follow later than the file: the hash is that
// of the first in the kubeconfig of the kubelet of the master that speaks for the cluster. If this one's
// cannot be read, nothing is known.
func (m *Machine) foreign(hash string) (is bool, err error) {
	content, err := m.Host.Files.Read(caFile)
	if hash == "" || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	kubelet := kubeapi.Access{Host: m.Host, Kubeconfig: KubeletKubeconfig}
	c, unreadable := kubelet.Connect()
	if unreadable != nil {
		return false, nil //nolint:nilerr // as above
	}
	trusted, _ := c.CA()
	content = append(content, "\n"+trusted...) // the file may end without one
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		c, broken := x509.ParseCertificate(block.Bytes)
		switch {
		case broken != nil:
		case hashOf(c) == hash:
			return false, err
		default:
			is = true
		}
	}
	return is, err
}

// UploadCertificates gives the certificates of the control plane to masters that join, under
// the key of the section.
func (m *Machine) UploadCertificates(ctx context.Context, desired *api.NodeConfig) error {
	documents, err := m.initDocuments(desired, nil)
	if err != nil {
		return err
	}
	config, err := m.config(desired.Cluster, documents...)
	if err != nil {
		return err
	}
	return explain("giving the certificates of the control plane to the masters that join", api.ReasonJoinFailed, m.Host.Kubeadm.UploadCertificates(ctx, config))
}
