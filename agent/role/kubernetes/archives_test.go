package kubernetes_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// program is the beginning of a program for an architecture, and a text.
func program(machine elf.Machine, text string) string {
	head := make([]byte, 64)
	copy(head, elf.ELFMAG)
	head[elf.EI_DATA] = byte(elf.ELFDATA2LSB)
	head[18], head[19] = byte(machine), byte(machine>>8)
	return string(head) + text
}

// ownProgram is one for this machine, and foreignProgram for another one.
func ownProgram(text string) string {
	return program(map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH], text)
}

func foreignProgram(text string) string { return program(elf.EM_S390, text) }

// packed is a tar by gzip of names and contents in turn.
func packed(t *testing.T, entries ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for entry := range slices.Chunk(entries, 2) {
		if err := w.WriteHeader(&tar.Header{Name: entry[0], Mode: 0o755, Size: int64(len(entry[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, entry[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// released is an archive as Kubernetes releases it.
func released(t *testing.T, of string) string {
	return packed(t, "kubernetes/node/bin/kubelet", ownProgram("v"+of), "kubernetes/node/bin/kubeadm", ownProgram("v"+of),
		"kubernetes/node/bin/kubectl", ownProgram("v"+of), "kubernetes/node/bin/kube-proxy", ownProgram(""), "kubernetes/LICENSES", "text")
}

// savedImages is an archive of images as `docker save` writes it.
func savedImages(t *testing.T, names ...string) string {
	return savedFor(t, runtime.GOARCH, names...)
}

func savedFor(t *testing.T, architecture string, names ...string) string {
	return packed(t, "c.json", `{"architecture":"`+architecture+`"}`, "manifest.json", `[{"Config":"c.json","RepoTags":["`+strings.Join(names, `","`)+`"]}]`)
}

// bare is a worker whose image has neither programs nor images of Kubernetes.
func bare(t *testing.T, role api.Role) *rig {
	r := second(t, role)
	if role == api.RoleMaster {
		r = first(t)
	}
	r.m.Kubernetes.KubernetesVersions = host.KubernetesVersions{}
	delete(r.m.Units, "kubelet.service")
	return r
}

// programs gives the document archives of programs.
func (r *rig) programs(contents ...string) {
	r.doc.Kubernetes.ProgramArchives = nil
	for _, content := range contents {
		r.doc.Kubernetes.ProgramArchives = append(r.doc.Kubernetes.ProgramArchives, *r.give(content))
	}
}

// brings gives the document archives of images.
func (r *rig) brings(contents ...string) {
	r.doc.Kubernetes.ImageArchives = nil
	for _, content := range contents {
		r.doc.Kubernetes.ImageArchives = append(r.doc.Kubernetes.ImageArchives, *r.give(content))
	}
}

// becomes converges until nothing is left to do, and wants the condition.
func (r *rig) becomes(condition, want string, words ...string) {
	r.Helper()
	for range 4 {
		r.converge()
	}
	r.expect(condition, want, words...)
}

// hasFile wants a file that ends in a text.
func (r *rig) hasFile(path, text string, mode fs.FileMode) {
	r.Helper()
	if f := r.m.Files[path]; !strings.HasSuffix(f.Content, text) || f.Mode != mode || f.Content == "" {
		r.Errorf("%s is %q, mode %o; want one that ends in %q, mode %o", path, f.Content, f.Mode, text, mode)
	}
}

func TestAMachineWithoutKubernetesGetsItFromThePackage(t *testing.T) {
	for _, role := range []api.Role{api.RoleMaster, api.RoleWorker} {
		t.Run(string(role), func(t *testing.T) {
			r := bare(t, role)
			r.programs(released(t, version), packed(t, "./bridge", ownProgram("plugin"), "./README.md", "x"))
			r.brings(savedImages(t, "registry.k8s.io/pause:3.10.1", "example.com/net:1"))
			r.becomes(member, "True Joined")
			r.expect(installed, "True Installed", version)
			for _, name := range []string{"kubelet", "kubeadm", "kubectl"} {
				r.hasFile("/usr/local/bin/"+name, "v"+version, 0o755)
			}
			r.hasFile("/opt/cni/bin/bridge", "plugin", 0o755)
			if _, ok := r.m.Files["/usr/local/bin/kube-proxy"]; ok {
				t.Error("kube-proxy was installed")
			}
			r.hasFile("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "ExecStart=/usr/local/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n", 0o644)
			if u := r.m.Units["kubelet.service"]; u == nil || !u.Enabled {
				t.Errorf("kubelet.service is %+v", u)
			}
			if want := []string{"registry.k8s.io/pause:3.10.1", "example.com/net:1"}; !slices.Equal(r.m.Images.Names, want) {
				t.Errorf("containerd has %q", r.m.Images.Names)
			}
			r.idle()
			for _, ref := range r.doc.Files() {
				if r.files.Has(ref) {
					t.Errorf("the archive %s is kept", ref.Sha256)
				}
			}
		})
	}
}

// Before whichever change the agent or the machine ends, the next life of the agent finishes.
func TestAnInterruptedInstallationIsFinished(t *testing.T) {
	give := func(r *rig) {
		r.programs(released(t, version), packed(t, "bridge", ownProgram("plugin")))
		r.brings(savedImages(t, "example.com/net:1"))
	}
	for passes := range 2 {
		for n := 1; ; n++ {
			r := bare(t, api.RoleWorker)
			give(r)
			for range passes {
				r.converge()
			}
			if !r.crashing(n) {
				if n < 10 {
					t.Errorf("after %d passes there are only %d changes", passes, n-1)
				}
				break
			}
			imported := slices.Clone(r.m.Images.Names)
			trace := len(r.m.Trace)
			give(r) // the controller still has what was removed
			r.restart()
			r.becomes(member, "True Joined")
			if !slices.Equal(r.m.Images.Names, []string{"example.com/net:1"}) {
				t.Errorf("%d passes, then before change %d: containerd has %q", passes, n, r.m.Images.Names)
			}
			if again := strings.Join(r.m.Trace[trace:], "\n"); imported != nil && strings.Contains(again, "import images") && !strings.Contains(again, "remove images example.com/net:1") {
				t.Errorf("%d passes, then before change %d: what containerd may not have on the disk is kept:\n%s", passes, n, again)
			}
			r.hasFile("/usr/local/bin/kubelet", "v"+version, 0o755)
			r.hasFile("/opt/cni/bin/bridge", "plugin", 0o755)
			r.idle()
		}
	}
}

func TestWhichProgramsAreTaken(t *testing.T) {
	elsewhere := func(path string) func(*rig) {
		return func(r *rig) { r.m.Files[path] = hosttest.FileState{Content: "theirs " + version, Mode: 0o755} }
	}
	const kubelet, bridge = "/usr/local/bin/kubelet", "/opt/cni/bin/bridge"
	for name, c := range map[string]struct {
		archives      []string
		change        func(*rig)
		path, content string // what is there then, "" for nothing
		want          string
		words         []string
	}{
		"of the machine's architecture": {[]string{packed(t, "kubelet", foreignProgram("v1.2.3"), "kubeadm", foreignProgram("v1.2.3")), released(t, version)},
			nil, kubelet, "v" + version, "True Installed", nil},
		"the first of a name":  {[]string{released(t, version), released(t, "1.34.5")}, nil, kubelet, "v" + version, "True Installed", nil},
		"another version":      {[]string{released(t, "1.34.5")}, nil, kubelet, "v1.34.5", "False VersionDiffers", []string{"1.34.5"}},
		"another architecture": {[]string{packed(t, "kubelet", foreignProgram(""))}, nil, kubelet, "", "False ProgramMissing", []string{"for " + runtime.GOARCH + " in an archive of program_archive_paths"}},
		"one that the machine has": {[]string{released(t, version)}, elsewhere("/usr/bin/kubectl"),
			"/usr/local/bin/kubectl", "", "True Installed", nil},
		"one that somebody has put there": {[]string{released(t, version)}, elsewhere("/usr/local/bin/kubectl"),
			"/usr/local/bin/kubectl", "theirs " + version, "True Installed", nil},
		"a plugin that the machine has": {[]string{released(t, version), packed(t, "bridge", ownProgram("new"))}, elsewhere(bridge), bridge, "theirs " + version, "True Installed", nil},
		"containerd's directory of plugins": {[]string{released(t, version), packed(t, "bridge", ownProgram("new"))}, func(r *rig) {
			r.m.ContainerdConfig = func(string, map[string]hosttest.FileState) ([]byte, error) {
				return []byte("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.cni]\nbin_dir = '/usr/lib/cni'\n"), nil
			}
		}, "/usr/lib/cni/bridge", "new", "True Installed", nil},
		"an archive that is none": {[]string{"text"}, nil, kubelet, "", "False ProgramMissing", []string{"is not a tar archive"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := bare(t, api.RoleWorker)
			if c.change != nil {
				c.change(r)
			}
			r.programs(c.archives...)
			r.becomes(installed, c.want, c.words...)
			if c.content != "" {
				r.hasFile(c.path, c.content, 0o755)
			} else if f, ok := r.m.Files[c.path]; ok {
				t.Errorf("%s is %q", c.path, f.Content)
			}
		})
	}
}

// Until it is a member, the machine follows the package.
func TestProgramsOfAMemberAreReplacedOnlyByAnUpgrade(t *testing.T) {
	r := bare(t, api.RoleWorker)
	r.programs(released(t, "1.34.3"))
	r.becomes(installed, "False VersionDiffers")
	r.programs(released(t, version))
	r.becomes(member, "True Joined")
	r.hasFile("/usr/local/bin/kubelet", "v"+version, 0o755)

	delete(r.m.Files, "/usr/local/bin/kubelet") // the same archives bring the same
	r.programs(released(t, version))
	r.becomes(installed, "True Installed")
	r.hasFile("/usr/local/bin/kubelet", "v"+version, 0o755)
	r.idle()

	r.programs(packed(t, "kubelet", ownProgram("another v"+version)), packed(t, "bridge", ownProgram("plugin")))
	r.expect(installed, "True Installed")
	if f, ok := r.m.Files["/opt/cni/bin/bridge"]; ok || strings.Contains(r.m.Files["/usr/local/bin/kubelet"].Content, "another") {
		t.Errorf("kubelet, or the plugin %+v, is another one", f)
	}
	r.idle()
}

// A cluster whose making has failed is made with another version, unless others know of it.
func TestAClusterThatIsNotMadeYetGetsAnotherVersion(t *testing.T) {
	const other = "1.34.5"
	for name, c := range map[string]struct {
		hash func(*rig) string
		want string
	}{
		"nobody knows of it": {func(*rig) string { return "" }, "True Joined"},
		"others know of it":  {func(r *rig) string { return r.hash }, "False NotJoined"},
	} {
		t.Run(name, func(t *testing.T) {
			r := bare(t, api.RoleMaster)
			r.programs(released(t, version))
			r.m.Kubernetes.Refuses["init"] = noServer
			r.becomes(member, "False JoinFailed")
			r.runs()
			delete(r.m.Kubernetes.Refuses, "init")
			r.doc.Kubernetes.Version, r.doc.Cluster.CACertificateHash = other, c.hash(r)
			r.doc.Cluster.Initialize = r.doc.Cluster.CACertificateHash == ""
			r.programs(released(t, other))
			r.becomes(member, c.want)
			if c.want != "True Joined" {
				r.hasFile("/usr/local/bin/kubelet", "v"+version, 0o755)
				return
			}
			if got := verbs(r.runs()); got != "init" {
				t.Errorf("kubeadm ran as %q", got)
			}
			r.expect(installed, "True Installed", other)
			r.hasFile("/usr/local/bin/kubelet", "v"+other, 0o755)
			r.idle()
		})
	}
}

func TestTheMachinesOwnKubernetesIsKept(t *testing.T) {
	r := second(t, api.RoleWorker)
	r.programs(released(t, "1.34.5"))
	r.m.Files["/usr/bin/kubelet"] = hosttest.FileState{Content: "theirs", Mode: 0o755}
	r.m.Files["/usr/bin/kubeadm"] = hosttest.FileState{Content: "theirs", Mode: 0o755}
	r.becomes(member, "True Joined")
	const unit = "/etc/systemd/system/kubelet.service"
	for _, path := range []string{"/usr/local/bin/kubelet", "/usr/local/bin/kubeadm", unit, unit + ".d/10-kubeadm.conf"} {
		if _, there := r.m.Files[path]; there {
			t.Errorf("%s was written", path)
		}
	}
}

func TestImagesOfArchives(t *testing.T) {
	const pause, net = "registry.k8s.io/pause:3.10.1", "example.com/net:1"
	set := func(pause string) func(*rig) {
		return func(r *rig) {
			r.m.ContainerdConfig = func(string, map[string]hosttest.FileState) ([]byte, error) {
				return []byte("version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nsandbox_image = '" + pause + "'\n"), nil
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*rig)
		want   string
		words  []string
	}{
		"the image of Pods":         {set(pause), "True Installed", nil},
		"another image of Pods":     {set("registry.k8s.io/pause:3.8"), "False ImageUnavailable", []string{"starts each Pod with the image registry.k8s.io/pause:3.8", pause, "/etc/containerd/config.toml"}},
		"it is on the machine":      {func(r *rig) { set("a/pause:1")(r); r.m.Images.Names = []string{"a/pause:1"} }, "True Installed", nil},
		"containerd refuses":        {func(r *rig) { r.m.Images.Refuses = "ctr: unrecognized image format" }, "False ImageUnavailable", []string{"does not import", "unrecognized image format"}},
		"containerd's disk is full": {func(r *rig) { r.m.Images.Refuses = "ctr: write /var/lib/containerd/x: no space left on device" }, "False NoSpace", []string{"make room"}},
		"containerd does not run":   {func(r *rig) { r.m.Images.Down = "ctr: failed to dial \"/run/containerd/containerd.sock\"" }, "False EngineNotRunning", []string{"failed to dial"}},
		"an archive that is none":   {func(r *rig) { r.brings("text") }, "False ImageUnavailable", []string{"is not a tar archive"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := second(t, api.RoleWorker)
			r.brings(savedImages(t, pause, net))
			c.change(r)
			r.expect(installed, c.want, c.words...)
			r.m.Images.Refuses, r.m.Images.Down = "", ""
			set(pause)(r)
			r.brings(savedImages(t, pause, net))
			r.becomes(member, "True Joined")
			if !slices.Contains(r.m.Images.Names, pause) || !slices.Contains(r.m.Images.Names, net) {
				t.Errorf("containerd has %q", r.m.Images.Names)
			}
			r.idle()
		})
	}
}

// Names as containerd has them may differ from those in the archive.
func TestImagesThatAreNotImportedHoldUpNothing(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"of another architecture": func(r *rig) { r.brings(savedFor(t, "s390x", "example.com/net:1")) },
		"by another name":         func(r *rig) { r.m.Images.Renames = true; r.brings(savedImages(t, "example.com/net:1")) },
	} {
		t.Run(name, func(t *testing.T) {
			r := second(t, api.RoleWorker)
			change(r)
			r.becomes(member, "True Joined")
			if slices.Contains(r.m.Images.Names, "example.com/net:1") {
				t.Errorf("containerd has %q", r.m.Images.Names)
			}
		})
	}
}

// What kubelet removes from a member is kubelet's business; what is new in the package comes.
func TestImagesAreImportedAgainOnlyBeforeTheMachineIsAMember(t *testing.T) {
	r := second(t, api.RoleWorker)
	archive := savedImages(t, "example.com/net:1")
	r.brings(archive)
	r.doc.Cluster.CACertificateHash = "" // it waits for its cluster
	r.becomes(installed, "True Installed")
	r.m.Images.Names = nil
	r.brings(archive)
	r.becomes(installed, "True Installed")
	if len(r.m.Images.Names) != 1 {
		t.Errorf("an image that is gone is not imported again: %q", r.m.Images.Names)
	}
	r.doc.Cluster.CACertificateHash = r.hash
	r.becomes(member, "True Joined")
	r.m.Images.Names = nil
	r.idle()
	r.brings(archive, savedImages(t, "example.com/net:2"))
	r.becomes(installed, "True Installed")
	if !slices.Equal(r.m.Images.Names, []string{"example.com/net:2"}) {
		t.Errorf("containerd has %q", r.m.Images.Names)
	}
}
