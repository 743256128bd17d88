package stacks

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// sharedPoint is the stack's own connection point, whose address the masters share.
const sharedPoint = "vip_CP"

// packageOfMade is the cluster's VNF package, without its script, and with what nodehitch makes
// Kubernetes of.
func (w *world) packageOfMade() (folder string) {
	w.T.Helper()
	folder = w.T.TempDir()
	err := errors.Join(os.CopyFS(filepath.Join(folder, "Files"), os.DirFS(filepath.Join(clusterPackage, "Files"))),
		os.WriteFile(filepath.Join(folder, "Files/pod-network.yaml"), kube.PodNetwork, 0o600),
		os.WriteFile(filepath.Join(folder, "Files/kubeadm.yaml"), []byte(kube.ProxyConfiguration), 0o600))
	if err != nil {
		w.T.Fatal(err)
	}
	return folder
}

// wantsKubernetes adds kubernetes to the request, whose members it returns.
func (v *tackerVNF) wantsKubernetes() object {
	version, err := kube.Version()
	if err != nil {
		v.T.Fatal(err)
	}
	wanted := v.parameters["k8s_cluster_installation_param"].(object)
	wanted["kubernetes"] = object{"version": strings.TrimPrefix(version, "v"), "pod_network_manifest_path": "Files/pod-network.yaml", "kubeadm_config_path": "Files/kubeadm.yaml"}
	return wanted
}

// allReady asserts that the cluster, if nodehitch has made it, has a Node for each master and
// worker and no other, all Ready.
func (c *cluster) allReady() {
	c.T.Helper()
	if !c.made {
		return
	}
	var want []string
	for _, n := range slices.Concat(c.nodes(api.RoleMaster), c.nodes(api.RoleWorker)) {
		want = append(want, c.hyper.machine(n.ID).Name()+"=True")
	}
	slices.Sort(want)
	got := strings.Fields(c.kubectl("get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}`))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		c.T.Errorf("the cluster has the Nodes %v, want %v", got, want)
	}
}

// sharedAddress is the masters', as the controller has found it in the stack.
func (c *cluster) sharedAddress() string {
	c.T.Helper()
	points := c.instance().Topology.ConnectionPoints
	i := slices.IndexFunc(points, func(p api.ConnectionPoint) bool { return p.Name == sharedPoint })
	if i < 0 || len(points[i].Addresses) != 1 {
		c.T.Fatalf("the stack has the connection points %+v, want %s with one address", points, sharedPoint)
	}
	return points[i].Addresses[0]
}

// port is one as Neutron has it.
type port struct {
	Fixed []struct {
		Address string `json:"ip_address"`
	} `json:"fixed_ips"`
	Allowed []struct {
		Address string `json:"ip_address"`
	} `json:"allowed_address_pairs"`
	Groups []string `json:"security_groups"`
}

// port is the only one of a node's server, whose machine has to have its address.
func (c *cluster) port(n api.Node) port {
	c.T.Helper()
	var list struct{ Ports []port }
	c.call(http.MethodGet, openstack.NeutronURL+"/ports?device_id="+n.ID, nil, &list)
	if len(list.Ports) != 1 || len(list.Ports[0].Fixed) != 1 {
		c.T.Fatalf("Neutron has the ports %+v of %s, want one with one address", list.Ports, n.Name)
	}
	p := list.Ports[0]
	if out := c.run(n, "ip", "-oneline", "address"); !strings.Contains(out, " "+p.Fixed[0].Address+"/") {
		c.T.Errorf("%s has not its port's address %s:\n%s", n.Name, p.Fixed[0].Address, out)
	}
	return p
}

// shared compares Neutron's ports with the machines, and with what the masters need and nobody else may.
func (s *scripted) shared(*results.Case) {
	c := s.life.cluster
	address := c.sharedAddress()
	masters := c.nodes(api.RoleMaster)
	var ofOthers []string
	for _, n := range slices.Concat(c.nodes(api.RoleWorker), c.nodes(api.RoleStorage)) {
		p := c.port(n)
		ofOthers = append(ofOthers, p.Groups...)
		if len(p.Allowed) > 0 {
			c.T.Errorf("%s may have %+v besides its own address", n.Name, p.Allowed)
		}
	}
	for _, n := range masters {
		p := c.port(n)
		if len(p.Allowed) != 1 || p.Allowed[0].Address != address {
			c.T.Errorf("%s may have %+v besides its own address; the masters share %s", n.Name, p.Allowed, address)
		}
		var from []string // whose VRRP it accepts
		for _, group := range p.Groups {
			from = append(from, c.acceptVRRPFrom(group)...)
		}
		if !slices.ContainsFunc(from, func(group string) bool { return slices.Contains(p.Groups, group) }) {
			c.T.Errorf("%s accepts VRRP from the security groups %q, and is in %q; want it from other masters", n.Name, from, p.Groups)
		}
		if slices.ContainsFunc(from, func(group string) bool { return group == "" || slices.Contains(ofOthers, group) }) {
			c.T.Errorf("%s accepts VRRP from the security groups %q; workers and the storage server are in %q", n.Name, from, ofOthers)
		}
	}
	c.Until("one master has "+address, func() error {
		var holders []string
		for _, n := range masters {
			if strings.Contains(c.run(n, "ip", "-oneline", "address"), " "+address+"/") {
				holders = append(holders, n.Name)
			}
		}
		if len(holders) != 1 {
			return fmt.Errorf("it is on %q", holders)
		}
		return nil
	})
}

// acceptVRRPFrom is from whom the members of a security group accept VRRP over IPv4: a group, or ""
// for what is no group.
func (c *cluster) acceptVRRPFrom(group string) (from []string) {
	c.T.Helper()
	var list struct {
		Rules []struct {
			Protocol *string
			Remote   string `json:"remote_group_id"`
		} `json:"security_group_rules"`
	}
	c.call(http.MethodGet, openstack.NeutronURL+"/security-group-rules?direction=ingress&ethertype=IPv4&security_group_id="+group, nil, &list)
	for _, r := range list.Rules {
		if r.Protocol == nil || *r.Protocol == "vrrp" || *r.Protocol == "112" {
			from = append(from, r.Remote)
		}
	}
	return from
}

// vim is one of Tacker's.
type vim struct {
	Name       string `json:"name"`
	URL        string `json:"auth_url"`
	Credential struct {
		Token string `json:"bearer_token"`
		CA    string `json:"ssl_ca_cert"`
	} `json:"auth_cred"`
}

// vims are all that Tacker has.
func (m *tacker) vims() []vim {
	m.T.Helper()
	var database struct{ VIMs []vim }
	m.readJSON(m.path("state.json"), &database)
	return database.VIMs
}

// deploys makes a Deployment by the only VIM, which is that of the cluster at this address, with nothing
// else than Tacker has of it, on Tacker's machine.
func (m *tacker) deploys(kubelet *lab.Kubelet, address string) {
	m.T.Helper()
	all, url := m.vims(), "https://"+net.JoinHostPort(address, "6443")
	if len(all) != 1 || all[0].Name != "kubernetes_vim" || all[0].URL != url {
		m.T.Fatalf("Tacker has the VIMs %+v, want kubernetes_vim at %s", all, url)
	}
	of := all[0]
	access, err := yaml.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": of.Name,
		"clusters": []object{{"name": of.Name, "cluster": object{"server": of.URL, "certificate-authority-data": []byte(of.Credential.CA)}}},
		"users":    []object{{"name": of.Name, "user": object{"token": of.Credential.Token}}},
		"contexts": []object{{"name": of.Name, "context": object{"cluster": of.Name, "user": of.Name}}},
	})
	kubeconfig, manifest := m.path("vim.kubeconfig"), m.path("deployment.yaml")
	if err := errors.Join(err, os.WriteFile(kubeconfig, access, 0o600), os.WriteFile(manifest, []byte(kube.TestDeployment("by-the-vim", kube.TestImage)), 0o600)); err != nil {
		m.T.Fatal(err)
	}
	kubectl := func(args ...string) ([]byte, error) {
		command := append([]string{filepath.Join(kubelet.Programs, "usr/bin/kubectl"), "--kubeconfig", kubeconfig}, args...)
		return m.Lab.Command(m.T.Context(), command...).CombinedOutput()
	}
	for _, args := range [][]string{
		{"apply", "-f", manifest},
		{"wait", "--for=condition=Available", "--timeout=3m", "deployment/by-the-vim"},
	} {
		if out, err := kubectl(args...); err != nil {
			pods, _ := kubectl("describe", "deployments,replicasets,pods")
			m.T.Fatalf("kubectl %v: %v\n%s\n%s", args, err, out, pods)
		}
	}
}

func (s *scripted) byTheVIM(*results.Case) {
	s.tacker.deploys(s.kubelet, s.life.cluster.sharedAddress())
}

// byTheDriver makes a smaller cluster by the v1 driver.
func (s *scripted) byTheDriver(r *results.Case) {
	v := s.tacker.newV1("simple", clusterRequest, s.files)
	wanted := v.wantsKubernetes()
	delete(wanted, "storage_server")
	delete(wanted, "pv_registration_params")
	c := &cluster{vnf: v.vnf, made: true}
	begun(v, map[api.Role]int{api.RoleMaster: 1, api.RoleWorker: 2}, r)
	c.allReady()
	s.tacker.deploys(s.kubelet, c.one(api.RoleMaster).Addresses[0])
	v.terminate(r)
	s.tacker.hasNoVIM()
}

func (m *tacker) hasNoVIM() {
	m.T.Helper()
	if left := m.vims(); len(left) > 0 {
		m.T.Errorf("Tacker still has %+v", left)
	}
}
