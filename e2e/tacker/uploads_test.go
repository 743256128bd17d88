package tacker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// largeScript is a file of a VNF package that is sent in three pieces.
const largeScript = "Scripts/install_k8s_cluster.sh"

// writeScript replaces it.
func (v *vnf) writeScript(text string) {
	v.t.Helper()
	if err := os.WriteFile(filepath.Join(v.folder(), largeScript), []byte(text), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

// stored is how many bytes of it the controller has.
func (v *vnf) stored() (size int64) {
	v.t.Helper()
	for _, f := range v.instance().Files {
		if f.Path == largeScript {
			size = f.SizeBytes
		}
	}
	return size
}

var large = "#!/bin/sh\n" + strings.Repeat("# 16 characters\n", 18<<16) // 18 MiB

// TestUploads counts the calls that send package files, one of them in three pieces.
func TestUploads(t *testing.T) {
	results.Begin(t, suite, "uploads", "a large package file is sent in pieces; a changed file replaces the controller's, an unchanged one is not sent")
	w := newTackerMachine(t)
	v := w.newVNF()
	v.writeScript(large)
	v.instantiateStart()
	if got := v.stored(); got != int64(len(large)) {
		t.Errorf("the controller has %d bytes, want %d", got, len(large))
	}
	if got := w.Logged("operation=putFile", "status=308"); got != 3 { // where to begin, and two of three pieces
		t.Errorf("the controller asked for more %d times, want 3", got)
	}
	uploads := w.Logged("operation=putFile")
	v.call("instantiate_start", v.instantiateRequest(), nil).succeeds()
	if again := w.Logged("operation=putFile"); again != uploads || uploads < 5 {
		t.Errorf("%d calls have sent files, and %d with the repeated hook, want several and as many", uploads, again)
	}
	v.writeScript("#!/bin/sh\n")
	v.call("instantiate_start", v.instantiateRequest(), nil).succeeds()
	if got := v.stored(); got != 10 {
		t.Errorf("the controller has %d bytes of the changed file, want 10", got)
	}
}

// TestAnUploadThatIsCut kills the hook in the middle of a piece. What has arrived is not sent
// again.
func TestAnUploadThatIsCut(t *testing.T) {
	c := results.Begin(t, suite, "upload-cut", "a hook that is killed in the middle of a large file is called again: it sends only what has not arrived")
	w := newTackerMachine(t)
	v, d := w.newVNF(), newDoor(t, w.URL)
	w.configure(map[string]string{"urls": d.url()})
	v.writeScript(large)
	const arrived = 13 << 20 // in the second piece
	came, over := make(chan struct{}), make(chan struct{})
	d.after(arrived, func() {
		close(came)
		<-over
	})
	v.begin("INSTANTIATE", v.body)
	hook := v.call("instantiate_start", v.instantiateRequest(), nil)
	<-came
	_ = hook.process.Process.Kill()
	<-hook.process.Ended()
	close(over)
	if got := v.stored(); got != 0 {
		t.Fatalf("the controller has %d bytes of a file that was cut", got)
	}
	d.before(nil)
	v.call("instantiate_start", v.instantiateRequest(), nil).succeeds()
	if got := v.stored(); got != int64(len(large)) {
		t.Errorf("the controller has %d bytes, want %d", got, len(large))
	}
	again := d.passed()
	c.Figure("sent again", "%.1f of %d MiB, %d had arrived", float64(again)/(1<<20), len(large)>>20, arrived>>20)
	// TLS and the other calls need some more than the file itself.
	if most := int64(len(large) - arrived + 1<<20); again > most {
		t.Errorf("%d bytes were sent again, want at most %d", again, most)
	}
}

// TestSeveralPackagesWithOneVNFD: the user who sees the error may see nothing of other projects.
func TestSeveralPackagesWithOneVNFD(t *testing.T) {
	results.Begin(t, suite, "several-packages", "if several projects have a package with the VNFD's id, instantiate_start takes no files and says how many there are; their ids and projects are in the conductor's log alone")
	w := newTackerMachine(t)
	const another, project = "00000000-0000-4000-8000-000000000000", "another-project" // sorts first: an administrator's context finds it
	second := func(v *vnf) {
		err := os.CopyFS(filepath.Join(w.path("packages"), another), os.DirFS(v.folder()))
		if err != nil {
			t.Fatal(err)
		}
		w.database(func(d *database) { d.Projects = map[string]string{another: project} })
	}
	hidden := func(v *vnf, text string) {
		t.Log(text)
		for _, each := range []string{another, project, v.packageID} {
			if strings.Contains(text, each) {
				t.Errorf("the user sees %s: %s", each, text)
			}
		}
	}
	v := w.newVNF()
	second(v)
	v.begin("INSTANTIATE", v.body)
	start := v.call("instantiate_start", v.instantiateRequest(), nil)
	hidden(v, start.raises("2 VNF packages have its VNFD "+v.vnfd(), "administrator"))
	for _, each := range []string{another + " of project " + project, v.packageID + " of project tenant"} {
		if log := start.stderr.String(); !strings.Contains(log, each) {
			t.Errorf("the conductor's log lacks %q:\n%s", each, log)
		}
	}
	if err := os.RemoveAll(filepath.Join(w.path("packages"), another)); err != nil {
		t.Fatal(err)
	}

	script := w.newVNF().asV2()
	second(script.vnf)
	e := script.exec("instantiate_start", script.body, nil)
	if e.Code != 1 || !strings.Contains(e.Error, "2 VNF packages have its VNFD "+script.vnfd()) {
		t.Errorf("exit %d: %s", e.Code, e.Error)
	}
	hidden(script.vnf, e.Error)
	for _, each := range []*vnf{v, script.vnf} {
		if files := each.instance().Files; len(files) > 0 {
			t.Errorf("the controller has got %+v", files)
		}
	}
}

// TestTheFilesOfAClusterThatIsMade has a package without the script, which nobody would run.
func TestTheFilesOfAClusterThatIsMade(t *testing.T) {
	results.Begin(t, suite, "uploads/kubernetes", "with kubernetes in the request both APIs send the Pod network, kubeadm's configuration and the PersistentVolumes, and take a package without script_path's file")
	w := newTackerMachine(t)
	made := func() *vnf {
		v := w.newVNF()
		v.wanted()["k8s_cluster_installation_param"].(object)["kubernetes"] = object{
			"version": "1.34.4", "pod_network_manifest_path": "Files/pod-network.yaml", "kubeadm_config_path": "Files/kubeadm.yaml"}
		err := errors.Join(os.RemoveAll(filepath.Join(v.files, "Scripts")),
			os.WriteFile(filepath.Join(v.files, "Files/pod-network.yaml"), kube.PodNetwork, 0o600),
			os.WriteFile(filepath.Join(v.files, "Files/kubeadm.yaml"), []byte(kube.ProxyConfiguration), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v1, v2 := made(), made().asV2()
	v1.instantiateStart()
	v2.succeeds("instantiate_start", v2.body, nil)
	for _, v := range []*vnf{v1, v2.vnf} {
		i := v.instance()
		var sent []string
		for _, f := range i.Files {
			sent = append(sent, f.Path)
		}
		slices.Sort(sent)
		want := []string{"Files/kubeadm.yaml", "Files/kubernetes/nfs-pv1.yaml", "Files/kubernetes/nfs-pv2.yaml", "Files/kubernetes/nfs-pv3.yaml", "Files/pod-network.yaml"}
		if !slices.Equal(sent, want) || len(i.MissingFiles) > 0 {
			t.Errorf("the controller has %q and lacks %q, want %q", sent, i.MissingFiles, want)
		}
	}
}
