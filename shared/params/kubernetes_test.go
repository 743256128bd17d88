package params_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

const notRun = "script_path: is not run"

// kubernetes is the parameters of a cluster that nodehitch makes.
func kubernetes(networks, attributes string) json.RawMessage {
	return json.RawMessage(strings.Replace(string(cluster(`, "kubernetes": {"version": "1.34.4"`+attributes+`}`)), `"cluster_cp_name": "vip"`, `"cluster_cp_name": "vip"`+networks, 1))
}

func TestKubernetes(t *testing.T) {
	p := legal(t, kubernetes("", ""), notRun)
	if diff := cmp.Diff(&params.Kubernetes{Version: "1.34.4"}, p.Cluster.Kubernetes); diff != "" {
		t.Errorf("the smallest (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&params.ClusterMembers{EndpointPort: 6443, Access: params.AccessTacker}, p.ClusterMembers()); diff != "" {
		t.Errorf("the members that it implies (-want +got):\n%s", diff)
	}
	p = legal(t, kubernetes("", `, "image_repository": "10.10.0.3:5000/k8s", "pod_network_manifest_path": "./Files/net.yaml", "kubeadm_config_path": "Files/kubeadm.yaml", "program_archive_paths": ["Files/node.tar.gz", "./Files/cni.tgz"], "image_archive_paths": ["Files/images.tar"]}, "cluster_members": {"endpoint_port": 443`), notRun)
	want := &params.Kubernetes{
		Version: "1.34.4", ImageRepository: "10.10.0.3:5000/k8s", PodNetworkPath: "Files/net.yaml", KubeadmConfigPath: "Files/kubeadm.yaml",
		ProgramPaths: []string{"Files/node.tar.gz", "Files/cni.tgz"}, ImagePaths: []string{"Files/images.tar"},
	}
	if diff := cmp.Diff(want, p.Cluster.Kubernetes); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if p.ClusterMembers().EndpointPort != 443 {
		t.Errorf("the members that are given are replaced: %+v", p.ClusterMembers())
	}
	if p := legal(t, cluster("")); p.Cluster.Kubernetes != nil || p.ClusterMembers() != nil {
		t.Errorf("without kubernetes: %+v", p.Cluster)
	}
	at := fault.Root.Key("additionalParams").Key("k8s_cluster_installation_param").Key("kubernetes")
	uses := []params.FileUse{
		{Use: params.UsePodNetwork, Path: "Files/net.yaml", Pointer: string(at.Key("pod_network_manifest_path"))},
		{Use: params.UseKubeadmConfig, Path: "Files/kubeadm.yaml", Pointer: string(at.Key("kubeadm_config_path"))},
		{Use: params.UsePrograms, Path: "Files/node.tar.gz", Pointer: string(at.Key("program_archive_paths").Index(0))},
		{Use: params.UsePrograms, Path: "Files/cni.tgz", Pointer: string(at.Key("program_archive_paths").Index(1))},
		{Use: params.UseImages, Path: "Files/images.tar", Pointer: string(at.Key("image_archive_paths").Index(0))},
	}
	if diff := cmp.Diff(uses, params.Files(p, "/additionalParams")); diff != "" {
		t.Errorf("the package files (-want +got):\n%s", diff)
	}
	of := func(version string) json.RawMessage {
		return json.RawMessage(strings.Replace(string(kubernetes("", "")), "1.34.4", version, 1))
	}
	legal(t, of("1.35.4"), notRun)
	legal(t, of("1.36.0"), notRun, `version: "1.36.0" is a version that nodehitch is not tested with; tested are those of 1.34 and 1.35`)
}

func TestNetworksOfKubernetes(t *testing.T) {
	networks := func(pods, services string) string {
		return `, "pod_cidr": "` + pods + `", "cluster_cidr": "` + services + `"`
	}
	const config = `, "kubeadm_config_path": "k"`
	for name, c := range map[string]struct{ networks, attributes, fault, warns string }{
		"the defaults":                     {"", "", "", ""},
		"IPv6":                             {networks("fd00:244::/56", "fd00:96::/108"), "", "", ""},
		"the largest":                      {networks("10.0.0.0/8", "172.16.0.0/12"), "", "", ""},
		"the smallest":                     {networks("10.244.0.0/23", "10.96.0.0/28"), "", "", ""},
		"one Node's":                       {networks("10.244.0.0/24", "10.96.0.0/16"), "", "", "/master_node/pod_cidr: 10.244.0.0/24 is enough for one Node"},
		"overlapping":                      {networks("10.96.0.0/16", "10.96.0.0/12"), "", "/master_node: has overlapping networks", ""},
		"IPv4 and IPv6":                    {networks("10.244.0.0/16", "fd00:96::/108"), "", "/master_node: has networks of different IP versions", ""},
		"too few Services":                 {networks("10.244.0.0/16", "10.96.0.0/29"), "", "/master_node/cluster_cidr: 10.96.0.0/29 has 2^3 addresses", ""},
		"too many Services":                {networks("192.168.0.0/16", "10.0.0.0/11"), "", "/master_node/cluster_cidr: 10.0.0.0/11 has 2^21 addresses", ""},
		"too many Services of IPv6":        {networks("fd00:244::/56", "fd00:96::/107"), "", "/master_node/cluster_cidr", ""},
		"less than one Node's":             {networks("10.244.0.0/25", "10.96.0.0/16"), "", "/master_node/pod_cidr: 10.244.0.0/25 cannot be divided", ""},
		"less, and kubeadm's own":          {networks("10.244.0.0/25", "10.96.0.0/16"), config, "", ""},
		"more than can be divided":         {networks("10.0.0.0/7", "172.16.0.0/12"), "", "from /8 to /24", ""},
		"more than can be divided of IPv6": {networks("fd00:244::/40", "fd00:96::/108"), "", "from /48 to /64", ""},
		"overlapping the nodes'":           {networks("10.10.0.0/16", "10.96.0.0/16"), `}, "proxy": {"k8s_node_cidr": "10.10.0.0/24"`, "", "/master_node: has the pod_cidr 10.10.0.0/16, which overlaps k8s_node_cidr 10.10.0.0/24"},
		"beside the nodes'":                {networks("10.244.0.0/16", "10.96.0.0/16"), `}, "proxy": {"k8s_node_cidr": "10.10.0.0/24"`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, report := params.Parse(kubernetes(c.networks, c.attributes), "")
			expect(t, "faults", report.Faults.Error(), c.fault)
			warnings := fault.List{}
			for _, w := range report.Warnings {
				if !strings.HasSuffix(w.Pointer, "/script_path") {
					warnings = append(warnings, w)
				}
			}
			expect(t, "warnings", warnings.Error(), c.warns)
		})
	}
}

// The most common Pod network, shortened.
const podNetwork = `kind: Namespace
apiVersion: v1
metadata: {name: kube-flannel, labels: {pod-security.kubernetes.io/enforce: privileged}}
---
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: "system:flannel"}
rules: []
---
kind: ConfigMap
apiVersion: v1
metadata: {name: kube-flannel-cfg, namespace: kube-flannel}
data: {net-conf.json: '{"Network": "10.244.0.0/16"}'}
---
kind: DaemonSet
apiVersion: apps/v1
metadata: {name: kube-flannel-cfg, namespace: kube-flannel}
`

func TestPodNetworks(t *testing.T) {
	edit := func(old, text string) string {
		if !strings.Contains(podNetwork, old) {
			t.Fatalf("the manifest has no %q", old)
		}
		return strings.Replace(podNetwork, old, text, 1)
	}
	const configMap = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: kube-flannel-cfg, namespace: kube-flannel}\n"
	for name, c := range map[string]struct{ content, fault string }{
		"documents":                {podNetwork, ""},
		"a List":                   {listOf(strings.Split(podNetwork, "---\n")...), ""},
		"as JSON":                  {`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}`, ""},
		"the name in another room": {podNetwork + "---\n" + strings.Replace(configMap, "namespace: kube-flannel", "namespace: other", 1), ""},
		"empty":                    {"# nothing\n", "holds no object; expected those of a Pod network"},
		"not YAML":                 {"a: [b", "is not YAML"},
		"a text":                   {"hello", "found a string, expected an object"},
		"no version":               {edit("apiVersion: apps/v1\n", ""), `has no attribute "apiVersion", which is required (object 4)`},
		"a path for a version":     {edit("apps/v1", "../v1"), `at /apiVersion: is "../v1"; expected a version of an API, such as v1 or apps/v1 (object 4)`},
		"a version of two groups":  {edit("apps/v1", "apps/x/v1"), "at /apiVersion"},
		"no kind":                  {edit("kind: DaemonSet\n", ""), `has no attribute "kind"`},
		"a kind with a slash":      {edit("DaemonSet", "Daemon/Set"), "at /kind"},
		"no metadata":              {edit(`metadata: {name: "system:flannel"}`, ""), `has no attribute "metadata", which is required (object 2)`},
		"a name that is generated": {edit(`{name: "system:flannel"}`, "{generateName: flannel-}"), `at /metadata: has no attribute "name"`},
		"a name with a slash":      {edit("system:flannel", "system/flannel"), "at /metadata/name: is not the name of an object"},
		"a name that goes up":      {edit("system:flannel", ".."), "at /metadata/name"},
		"a name on two lines":      {edit("system:flannel", `a\nb`), "at /metadata/name: holds white space"},
		"a namespace with a slash": {edit("namespace: kube-flannel}\ndata", "namespace: a/b}\ndata"), "at /metadata/namespace"},
		"one object twice":         {podNetwork + "---\n" + configMap, `is the ConfigMap "kube-flannel-cfg" that object 3 is already; leave one out (object 5)`},
		"a key twice":              {edit("rules: []", "rules: []\nrules: []"), "is given more than once"},
		"too large":                {podNetwork + strings.Repeat("#", 1<<20), "is larger than 1048576 bytes, the most that a pod-network may have"},
		"too many":                 {strings.Repeat(configMap+"---\n", 201), "holds 201 objects; at most 200 are taken"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, warnings := check(t, params.UsePodNetwork, c.content, nil)
			expect(t, "faults", faults, c.fault)
			expect(t, "warnings", warnings, "")
		})
	}
	objects, err := params.ReadPodNetwork([]byte(podNetwork))
	if err != nil || len(objects) != 4 {
		t.Fatal(objects, err)
	}
	if o := objects[3]; o.APIVersion != "apps/v1" || o.Kind != "DaemonSet" || o.Namespace != "kube-flannel" || o.Name != "kube-flannel-cfg" || !json.Valid(o.JSON) {
		t.Errorf("the DaemonSet is %+v", o)
	}
}

const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer: {certSANs: [api.example.com], extraArgs: [{name: audit-log-maxage, value: "30"}]}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
`

func TestKubeadmConfigs(t *testing.T) {
	p, report := params.Parse(kubernetes(`, "pod_cidr": "10.244.0.0/16", "cluster_cidr": "10.96.0.0/16"`, `, "image_repository": "10.10.0.3:5000/k8s"`), "")
	if p == nil {
		t.Fatal(report.Faults)
	}
	with := func(lines string) string {
		return strings.Replace(kubeadmConfig, "apiServer:", lines+"\napiServer:", 1)
	}
	for name, c := range map[string]struct{ content, fault, warns string }{
		"three documents":                     {kubeadmConfig, "", ""},
		"one of them":                         {"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n", "", ""},
		"what nodehitch decides, the same":    {with("kubernetesVersion: v1.34.4\nimageRepository: 10.10.0.3:5000/k8s\ncertificatesDir: /etc/kubernetes/pki\nnetworking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/16, dnsDomain: example.internal}"), "", ""},
		"the version without v":               {with("kubernetesVersion: 1.34.4"), "", ""},
		"the network of kube-proxy, the same": {kubeadmConfig + "clusterCIDR: 10.244.0.0/16\n", "", ""},
		"empty":                               {"", "holds no document; expected ClusterConfiguration (kubeadm.k8s.io/v1beta4), KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1), KubeletConfiguration (kubelet.config.k8s.io/v1beta1)", ""},
		"not YAML":                            {"a: [b", "is not YAML", ""},
		"a text":                              {"hello", "found a string, expected an object", ""},
		"another kind":                        {"apiVersion: v1\nkind: ConfigMap\n", `at /kind: is "ConfigMap"; expected one of ClusterConfiguration`, ""},
		"of one machine":                      {kubeadmConfig + "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n", `at /kind: is "InitConfiguration", which nodehitch writes for each machine; leave the document out (object 4)`, ""},
		"of a machine that joins":             {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n", "which nodehitch writes for each machine", ""},
		"an older version":                    {strings.Replace(kubeadmConfig, "v1beta4", "v1beta3", 1), `at /apiVersion: is "kubeadm.k8s.io/v1beta3"; expected "kubeadm.k8s.io/v1beta4"`, ""},
		"no version":                          {"kind: ClusterConfiguration\n", `has no attribute "apiVersion"`, ""},
		"one kind twice":                      {kubeadmConfig + "---\n" + kubeadmConfig, `at /kind: is "ClusterConfiguration", as of object 1 already; at most one of each kind is taken (object 4)`, ""},
		"another version of Kubernetes":       {with("kubernetesVersion: v1.33.0"), `at /kubernetesVersion: is "v1.33.0", and version of kubernetes is "1.34.4"; leave it out, or make them equal (object 1)`, ""},
		"another repository":                  {with("imageRepository: registry.k8s.io"), "at /imageRepository", ""},
		"an endpoint":                         {with("controlPlaneEndpoint: 10.10.0.9:6443"), "at /controlPlaneEndpoint: is given; leave it out: nodehitch sets it", ""},
		"a List":                              {listOf(kubeadmConfig[:strings.Index(kubeadmConfig, "---")]), `at /kind: is "List"`, ""},
		"an etcd on another disk":             {with("etcd: {local: {dataDir: /srv/etcd}}"), "", ""},
		"certificates elsewhere":              {with("certificatesDir: /srv/pki"), "at /certificatesDir", ""},
		"another network of Pods":             {with("networking: {podSubnet: 10.245.0.0/16}"), `at /networking/podSubnet: is "10.245.0.0/16", and pod_cidr of master_node is 10.244.0.0/16`, ""},
		"another network of Services":         {with("networking: {serviceSubnet: 10.97.0.0/16}"), "at /networking/serviceSubnet", ""},
		"two networks of Pods":                {with("networking: {podSubnet: '10.244.0.0/16,fd00::/56'}"), "at /networking/podSubnet", ""},
		"a number for a version":              {with("kubernetesVersion: 1.34"), "at /kubernetesVersion: found a number, expected a string", ""},
		"another network of kube-proxy":       {kubeadmConfig + "clusterCIDR: 10.245.0.0/16\n", "at /clusterCIDR", ""},
		"misspelt":                            {with("featuregates: {}"), "", `at /featuregates: is not known to nodehitch; kubeadm refuses a member that it does not know; did you mean "featureGates"? (object 1)`},
	} {
		t.Run(name, func(t *testing.T) {
			faults, warnings := check(t, params.UseKubeadmConfig, c.content, p)
			expect(t, "faults", faults, c.fault)
			expect(t, "warnings", warnings, c.warns)
		})
	}
	if faults, _ := check(t, params.UseKubeadmConfig, with("kubernetesVersion: v1.33.0\nnetworking: {podSubnet: 10.245.0.0/16}"), nil); faults != "" {
		t.Errorf("without parameters: %s", faults)
	}
	if faults, _ := check(t, params.UseKubeadmConfig, with("kubernetesVersion: v1.33.0\ncontrolPlaneEndpoint: a\nimageRepository: b\nnetworking: {podSubnet: c, serviceSubnet: d}")+"clusterCIDR: e\n", p); strings.Count(faults, "\n") != 5 {
		t.Errorf("not each of six faults at once:\n%s", faults)
	}
}
