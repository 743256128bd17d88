// Package clustermember reports whether this machine is a member of its Kubernetes cluster. If
// nodehitch makes the cluster, it joins the machine; if not, a program of the user's does, and
// finds what it needs in a file.
package clustermember

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Kubeconfig is kubelet's, which exists once the machine has joined.
const Kubeconfig = kubeadm.KubeletKubeconfig

// kubeletUser is how the names of kubelets' users begin. The Node's name follows.
const kubeletUser = "system:node:"

// Options of the step. Host, Kubeadm and ServerID are required.
type Options struct {
	Host *host.Host
	// Kubeadm joins the machine if nodehitch makes the cluster.
	Kubeadm *kubeadm.Machine
	// ServerID is this machine's.
	ServerID string
	// RequestLimit is how long one request may take; 0 = kubeapi.DefaultRequestLimit.
	RequestLimit time.Duration
}

// step owns ClusterMember.
type step struct {
	Options
	access kubeapi.Access
}

// New returns the step that owns ClusterMember.
func New(o Options) converge.Step {
	return &step{Options: o, access: kubeapi.Access{
		Host: o.Host, Kubeconfig: Kubeconfig, RequestLimit: o.RequestLimit, Rights: "get its own Node",
		Renewal: "kubelet renews them while it reaches the API server; join the machine again if they have expired",
	}}
}

func (s *step) Condition() string { return api.ConditionClusterMember }

// ClusterScoped makes the engine act only for a document that the controller has confirmed on
// the present connection: the machine must not make a cluster because it was told to long ago.
func (s *step) ClusterScoped() {}

func (s *step) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.Cluster == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	plan := converge.Plan{Reason: api.ReasonJoined}
	var err error
	plan.Actions, err = s.file(desired)
	if desired.Kubernetes != nil {
		actions, waits := s.Kubeadm.Join(ctx, desired)
		if plan.Actions = append(plan.Actions, actions...); len(actions) > 0 || waits != nil {
			return plan, errors.Join(err, waits)
		}
		upgrade, waits := s.Kubeadm.Upgrade(ctx, desired)
		plan.Actions = append(plan.Actions, upgrade...)
		node, is := s.member(ctx, &plan)
		if len(upgrade) == 0 && waits == nil && is == nil {
			is = s.current(desired, node, &plan)
		}
		return plan, errors.Join(err, waits, is)
	}
	_, is := s.member(ctx, &plan)
	return plan, errors.Join(err, s.program(ctx, desired, is))
}

// current says that another kubelet runs than that of the section, and adds to the message where
// the snapshot of an upgrade is.
func (s *step) current(desired *api.NodeConfig, node kubeapi.Node, plan *converge.Plan) error {
	version := desired.Kubernetes.Version
	if runs := node.KubeletVersion(); runs != "v"+version {
		return converge.Wait(api.ReasonNodeNotReady, "kubelet of Node %s is of version %s; expected v%s, which it reports once it has started with that version", node.GetName(), runs, version)
	}
	if file := s.Kubeadm.Snapshot(version); file != "" {
		plan.Message += "; etcd's data of before the upgrade is in " + file
	}
	return nil
}

// The unit of the program that joins the machine, if user_data has one, and how much of what it
// logs is repeated.
const (
	programUnit = "nodehitch-cluster.service"
	longestSaid = 700
)

// program adds to the error of a machine that has not joined what the program said that failed to
// join it.
func (s *step) program(ctx context.Context, desired *api.NodeConfig, err error) error {
	var waiting *converge.Waiting
	if !errors.As(err, &waiting) || waiting.Reason != api.ReasonNotJoined || desired.Kubernetes != nil {
		return err
	}
	unit, unknown := s.Host.Units.Unit(ctx, programUnit)
	if unknown != nil || unit.Active != "failed" && unit.Sub != "auto-restart" {
		return err
	}
	said := s.Host.Units.Said(ctx, programUnit)
	_, token, _ := strings.Cut(desired.Cluster.BootstrapToken, ".")
	for _, secret := range []string{token, desired.Cluster.CertificateKey} {
		if secret != "" {
			said = strings.ReplaceAll(said, secret, "(redacted)")
		}
	}
	if left := len(said) - longestSaid; left > 0 {
		said = "…" + strings.ToValidUTF8(said[left:], "")
	}
	return converge.Wait(waiting.Reason, "%s; %s has failed; its journal ends with: %s", waiting.Message, programUnit, said)
}

// file plans what is to become of File. Where the agent itself joins the machine there is none:
// a program that reads it would join the machine too.
func (s *step) file(desired *api.NodeConfig) ([]converge.Action, error) {
	if desired.Kubernetes != nil {
		_, err := s.Host.Files.Mode(File)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return []converge.Action{{Summary: "remove " + File, Do: func(context.Context) error { return s.Host.Files.Remove(File) }}}, nil
	}
	content, err := content(desired, s.ServerID)
	if err != nil {
		return nil, err
	}
	same, err := s.Host.Files.Same(File, content, fileMode)
	if same || err != nil {
		return nil, err
	}
	return []converge.Action{{Summary: "write " + File, Do: func(context.Context) error {
		return s.Host.Files.Write(File, content, fileMode)
	}}}, nil
}

// member returns nil if the machine's Node is Ready.
func (s *step) member(ctx context.Context, plan *converge.Plan) (node kubeapi.Node, err error) {
	if _, err := s.Host.Files.Mode(Kubeconfig); errors.Is(err, fs.ErrNotExist) {
		return node, s.notJoined(ctx)
	}
	c, err := s.access.Connect()
	if err != nil {
		return node, err
	}
	name, isKubelet := strings.CutPrefix(c.User(), kubeletUser)
	if !isKubelet || name == "" {
		return node, converge.Wait(api.ReasonNotJoined, "the client certificate of %s is for %q; expected %s<name>, so no kubelet has joined with it", Kubeconfig, c.User(), kubeletUser)
	}
	// The cluster's authority has signed this certificate, so it is the authority of the
	// machine's cluster.
	plan.Cluster.CACertificate, plan.Cluster.CACertificateHash = c.CA()
	unreported := ""
	if characters := utf8.RuneCountInString(plan.Cluster.CACertificate); characters > api.LongestCACertificate {
		unreported = fmt.Sprintf("; the certificates of its authority in %s are not reported, so nobody is given access: they have %d characters, expected at most %d",
			Kubeconfig, characters, api.LongestCACertificate)
		plan.Cluster.CACertificate = ""
	}
	u, err := c.Resource(kubeapi.Nodes).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return node, converge.Wait(api.ReasonNotJoined, "the cluster has no Node %s, which this machine's kubelet registers when it starts; if the Node was deleted, restart kubelet on a worker, or reset a master and join it again", name)
	}
	if err != nil {
		return node, c.Explain(err)
	}
	node = kubeapi.Node{Unstructured: u}
	if !node.Of(s.ServerID) {
		return node, converge.Wait(api.ReasonNotJoined, "Node %s is that of another machine: neither its systemUUID nor its providerID is this server's id, %s", name, s.ServerID)
	}
	if ready, why := node.Ready(); !ready {
		return node, converge.Wait(api.ReasonNodeNotReady, "Node %s is not Ready: %s", name, why)
	}
	plan.Message = fmt.Sprintf("Node %s is Ready%s", name, unreported)
	return node, nil
}

// notJoined tells a machine on which nothing has joined yet from one that cannot.
func (s *step) notJoined(ctx context.Context) error {
	if kubelet, err := s.Host.Units.Unit(ctx, "kubelet.service"); err == nil && kubelet.Loaded == "not-found" {
		return converge.Wait(api.ReasonNotJoined, "kubelet is not installed on this machine: it has no kubelet.service and no %s", Kubeconfig)
	}
	return converge.Wait(api.ReasonNotJoined, "%s does not exist: no program has joined this machine to the cluster yet; what it needs is in %s", Kubeconfig, File)
}
