package stacks

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/sourcetree"
)

// changesPackage upgrades a smaller cluster of the v2 API by another package. Its machines have no program
// of Kubernetes: those, and the images that differ, are in the packages.
func (s *scripted) changesPackage(r *results.Case) {
	s.hyper.equip(lab.EngineInstalled, &lab.Kubelet{Programs: s.withoutPrograms(), Containerd: s.kubelet.Containerd})
	v := s.tacker.newV2("simple", clusterRequest, s.packageOf(s.older), "masterNode", "workerNode", "workerNode")
	wanted := v.wantsKubernetes()
	delete(wanted, "storage_server")
	delete(wanted, "pv_registration_params")
	v.wantsRelease(s.older)
	c := &cluster{vnf: v.vnf, made: true}
	count := map[api.Role]int{api.RoleMaster: 1, api.RoleWorker: 2}
	begun(v, count, r)
	c.allReady()
	c.runs(s.older.Version)
	address := c.one(api.RoleMaster).Addresses[0]
	s.tacker.deploys(s.kubelet, address)
	before := v.ids()

	v.wantsRelease(s.present)
	began := time.Now()
	v.change(s.packageOf(s.present))
	r.Figure("from change_current_package_start to the end of change_current_package_end", "%.1f s", time.Since(began).Seconds())
	if after := v.ids(); !slices.Equal(after, before) {
		s.T.Errorf("the stack had the servers %v, has %v", before, after)
	}
	c.attested(count)
	c.allReady()
	c.runs(s.present.Version)
	s.tacker.deploys(s.kubelet, address)
	v.terminate(r)
	s.tacker.hasNoVIM()
	s.hyper.equip(lab.EngineInstalled, s.kubelet)
}

// withoutPrograms is a folder for machines in whose place of programs the agent puts those of the package: the
// units of kubelet run it from there.
func (s *scripted) withoutPrograms() (folder string) {
	s.T.Helper()
	folder = s.T.TempDir()
	for _, file := range []string{"kubelet.service", "kubelet.service.d/10-kubeadm.conf"} {
		const units = "etc/systemd/system"
		text, err := os.ReadFile(filepath.Join(sourcetree.Path("e2e/lab/image/rootfs/kubelet"), units, file))
		moved := bytes.ReplaceAll(text, []byte("/usr/bin/kubelet"), []byte("/usr/local/bin/kubelet"))
		to := filepath.Join(folder, units, file)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, moved, 0o644)); err != nil {
			s.T.Fatal(err)
		}
	}
	return folder
}

// The archives of a release in its package.
const (
	programArchive = "Files/kubernetes-node-linux-amd64.tar.gz"
	imageArchive   = "Files/images.tar"
)

// packageOf is a package with a release of Kubernetes, but for images that every machine has.
func (s *scripted) packageOf(release *kube.Release) (folder string) {
	s.T.Helper()
	folder = s.tacker.packageOfMade()
	donor, err := s.Lab.Nspawn(s.T.Context(), lab.Spec{Name: "donor", Kubelet: s.kubelet})
	if err != nil {
		s.T.Fatal(err)
	}
	names, err := release.ImportImages(s.T.Context(), donor)
	if err != nil {
		s.T.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ":"+release.Version) })
	images, err := kube.ExportImages(s.T.Context(), donor, names)
	err = errors.Join(err, donor.Destroy(), os.WriteFile(filepath.Join(folder, imageArchive), images, 0o600),
		release.WriteNodeArchive(filepath.Join(folder, programArchive)))
	if err != nil {
		s.T.Fatal(err)
	}
	return folder
}

// wantsRelease is wantsKubernetes of a release that the package has.
func (v *v2) wantsRelease(release *kube.Release) {
	kubernetes := v.parameters["k8s_cluster_installation_param"].(object)["kubernetes"].(object)
	kubernetes["version"] = strings.TrimPrefix(release.Version, "v")
	kubernetes["program_archive_paths"], kubernetes["image_archive_paths"] = []string{programArchive}, []string{imageArchive}
}

// change is script, UserData class, Heat, script: a change of the package in which Tacker replaces no server.
func (v *v2) change(files string) {
	v.T.Helper()
	v.begin()
	v.vnfd = v.tacker.packageFrom(hot.V2, "simple", files)
	additional := object{"upgrade_type": "RollingUpdate", "vdu_params": []object{}}
	maps.Copy(additional, v.parameters)
	request, grant := object{"vnfdId": v.vnfd, "additionalParams": additional}, v.grant("CHANGE_VNFPKG", nil, nil)
	grant["dstVnfdId"] = v.vnfd
	v.script("change_current_package_start", request, grant)
	nfv := v.nfv()
	for name, of := range v.userData(request, grant).Parameters["nfv"].(object)["VDU"].(object) {
		maps.Copy(nfv["VDU"].(object)[name].(object), of.(object))
	}
	v.patch(object{"nfv": nfv})
	v.script("change_current_package_end", request, grant)
}

// ids are those of the stack's servers, in order.
func (v *tackerVNF) ids() (list []string) {
	v.T.Helper()
	for _, s := range v.servers() {
		list = append(list, s.PhysicalID)
	}
	slices.Sort(list)
	return list
}

// runs asserts that the kubelet of each Node has this version.
func (c *cluster) runs(version string) {
	c.T.Helper()
	got := strings.Fields(c.kubectl("get", "nodes", "-o", `jsonpath={.items[*].status.nodeInfo.kubeletVersion}`))
	if len(got) == 0 || slices.ContainsFunc(got, func(each string) bool { return each != version }) {
		c.T.Errorf("the Nodes have the versions %v, want %s alone", got, version)
	}
}
