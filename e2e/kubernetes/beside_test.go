package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/timeline"
	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/peers"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestBesideAnsible has the spec's cluster made by nodehitch, and then by ansible with the same
// commands, on all machines at once. Ansible does not connect the machines with the private
// registry, and its masters' address follows no API server. The time in which the machines get
// sshd does not count.
func TestBesideAnsible(t *testing.T) {
	r := results.Begin(t, "peers", "kubernetes, 1+3+3", "a cluster of a storage server, three masters and three workers by nodehitch, and by ansible with all machines at once")
	peers.Require(t)
	w := newCluster(t, lab.KindVM)
	w.drawSpecs()
	w.ask()
	began := time.Now()
	w.stand(r)
	r.Figure("nodehitch: power-on to the last Node Ready", "%.0f s", w.lastReady().Sub(began).Seconds())
	w.slowest(r, 2)
	w.Destroy(w.Up()...)

	byAnsible := w.another()
	defer byAnsible.Explain()
	address := byAnsible.drawSpecs()
	byAnsible.driven(r, address)
}

// drawSpecs draws the spec's cluster, and returns the masters' address.
func (w *cluster) drawSpecs() (shared string) {
	w.T.Helper()
	w.draw(3, 2)
	w.drawVirtual()
	w.drawStorage()
	return w.share()
}

// lastReady is when the last Node became Ready, in whole seconds.
func (w *cluster) lastReady() time.Time {
	w.T.Helper()
	said := strings.Fields(w.kubectl("get", "nodes", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].lastTransitionTime} {end}`))
	last, err := time.Parse(time.RFC3339, slices.Max(said))
	if err != nil {
		w.T.Fatal(err)
	}
	return last
}

// slowest tells what the slowest targets of the last operation went through.
func (w *cluster) slowest(r *results.Case, targets int) {
	w.T.Helper()
	var events api.EventList
	if err := w.JSON(w.T.Context(), &events, "events", "--instance", w.ID, "--limit", "10000"); err != nil {
		w.T.Fatal(err)
	}
	line := timeline.Of(w.LastOperation(), events.Items)
	for _, track := range line.Tracks[:min(targets, len(line.Tracks))] {
		var steps []string
		for _, s := range track.Over {
			steps = append(steps, fmt.Sprintf("%s +%.1f s", s.Name, s.End.Sub(line.Start).Seconds()))
		}
		r.Figure("nodehitch: steps of "+track.Name, "%s", strings.Join(steps, ", "))
	}
}

// playbook prepares all machines, makes the cluster on the first master, joins the others side by
// side, and registers the volumes.
const playbook = `
- hosts: all
  gather_facts: false
  strategy: free
  tasks:
    - name: the machine
      ansible.builtin.shell: "{{ prepare }}"
- hosts: first
  gather_facts: false
  tasks:
    - name: the cluster
      ansible.builtin.shell: "{{ init }}"
- hosts: others
  gather_facts: false
  strategy: free
  tasks:
    - name: a member
      ansible.builtin.shell: "{{ join }}"
- hosts: first
  gather_facts: false
  tasks:
    - name: the volumes
      ansible.builtin.shell: "{{ volumes }}"
`

// driven makes the cluster by ansible.
func (w *cluster) driven(r *results.Case, shared string) {
	w.T.Helper()
	control := peers.Ansible(w.World)
	began := time.Now()
	w.bootThen(nil, func(ctx context.Context, m lab.Node, _ bool) error { return m.WaitCloudInit(ctx) }, w.Topology.Servers...)
	booted := time.Since(began)
	key := peers.NewKey(w.T)
	if err := key.Admit(w.T.Context(), w.Lab, w.Up()...); err != nil {
		w.T.Fatal(err)
	}
	began = time.Now()
	peers.Play(control, key, playbook, w.inventory(shared))
	r.Figure("ansible: the machines boot", "%.1f s", booted.Seconds())
	r.Figure("ansible: power-on to the last Node Ready", "%.0f s", (booted + w.lastReady().Sub(began)).Seconds())
	r.Figure("ansible: machines powered on to volumes and CoreDNS available", "%.1f s", (booted + time.Since(began)).Seconds())
	w.hasNodes()
}

// What kubeadm is told; a playbook has them in its vault.
const (
	token          = "abcdef.0123456789abcdef"
	certificateKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

// inventory is all machines, each with what it has to do.
func (w *cluster) inventory(shared string) map[string]any {
	w.T.Helper()
	all, others := map[string]any{}, map[string]any{}
	nodes := ""
	masters := w.Of(masterPoint)
	for _, m := range w.Up() {
		steps := []string{"modprobe --all overlay br_netfilter || :", "sysctl --write net.ipv4.ip_forward=1", "systemctl enable --now containerd kubelet"}
		join := "kubeadm join " + shared + ":6443 --token " + token + " --discovery-token-unsafe-skip-ca-verification"
		variables := map[string]any{}
		switch sitetest.Point(m.Server) {
		case storagePoint:
			steps = peers.StorageSteps(w.volume)
		case masterPoint:
			steps = append(steps, "cat >/etc/keepalived/keepalived.conf <<'END'\n"+keepalived(m, masters, shared)+"END\n", "systemctl restart keepalived")
			join += " --control-plane --certificate-key " + certificateKey + " --apiserver-advertise-address " + m.Address().String()
			fallthrough
		case workerPoint:
			variables["join"] = join
			others[m.Name()] = nil
			nodes += " node/" + m.Name()
		}
		variables["prepare"] = peers.Script(steps...)
		all[m.Name()] = peers.Host(m, variables)
	}
	first := masters[0]
	delete(others, first.Name())
	const kubectl = "kubectl --kubeconfig " + peers.Kubeconfig
	return map[string]any{"all": map[string]any{"hosts": all, "children": map[string]any{
		"others": map[string]any{"hosts": others},
		"first": map[string]any{"hosts": map[string]any{first.Name(): map[string]any{
			"init": peers.Script(
				"until ip address show to "+shared+" | grep -q inet; do sleep 0.1; done",
				"cat >/root/kubeadm.yaml <<'END'\n"+w.kubeadmConfig(first, shared)+"END\n",
				"kubeadm init --config /root/kubeadm.yaml --upload-certs",
				"cat >/root/pod-network.yaml <<'END'\n"+string(kube.PodNetwork)+"END\n",
				kubectl+" apply -f /root/pod-network.yaml"),
			"volumes": peers.Script(append(peers.RegistrationSteps(w.T, manifests, w.Of(storagePoint)[0].Address()),
				// kubeadm's join can end before the kubelet has registered its Node. A wait for the
				// creation of several fails at once if two are missing.
				"for node in"+nodes+"; do "+kubectl+" wait --for=create --timeout=5m $node; done",
				kubectl+" wait --for=condition=Ready --timeout=5m"+nodes,
				kubectl+" --namespace kube-system rollout status --timeout=5m deployment/coredns")...),
		}}},
	}}}
}

func (w *cluster) kubeadmConfig(first *sitetest.Machine, shared string) string {
	params := w.request.params()
	master := params["master_node"].(map[string]any)
	return fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens: [{token: %s}]
certificateKey: %s
localAPIEndpoint: {advertiseAddress: %s}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v%s
controlPlaneEndpoint: %s:6443
networking: {podSubnet: %s, serviceSubnet: %s}
---
%s`, token, certificateKey, first.Address(), params["kubernetes"].(map[string]any)["version"], shared, master["pod_cidr"], master["cluster_cidr"], kube.ProxyConfiguration)
}

// keepalived has the first master hold the address as long as its machine is up.
func keepalived(m *sitetest.Machine, masters []*sitetest.Machine, shared string) string {
	state, priority, peers := "BACKUP", 100, ""
	if m == masters[0] {
		state, priority = "MASTER", 150
	}
	for _, other := range masters {
		if other != m {
			peers += other.Address().String() + "\n"
		}
	}
	return fmt.Sprintf(`vrrp_instance cluster {
state %s
interface host0
virtual_router_id 51
priority %d
unicast_src_ip %s
unicast_peer {
%s}
virtual_ipaddress {
%s/%d dev host0
}
}
`, state, priority, m.Address(), peers, shared, lab.Subnet.Bits())
}
