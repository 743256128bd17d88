package params_test

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nodehitch/nodehitch/shared/params"
)

// program is the beginning of a program for an architecture, and a text far behind it.
func program(machine elf.Machine, text string) string {
	head := make([]byte, 300<<10)
	copy(head, elf.ELFMAG)
	head[elf.EI_DATA], head[18], head[19] = byte(elf.ELFDATA2LSB), byte(machine), byte(machine>>8)
	if machine == elf.EM_S390 {
		head[elf.EI_DATA], head[18], head[19] = byte(elf.ELFDATA2MSB), head[19], head[18]
	}
	return string(head) + text
}

// member is a tar of one member that is no ordinary file.
func member(t *testing.T, h tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&h), w.Flush()); err != nil && h.Size == 0 {
		t.Fatal(err)
	}
	return b.String()
}

func TestArchivesOfPrograms(t *testing.T) {
	p, report := params.Parse(kubernetes("", ""), "")
	if p == nil {
		t.Fatal(report.Faults)
	}
	kubelet := program(elf.EM_X86_64, "v1.34.4")
	node := archive(t, "kubernetes/LICENSES", "text", "kubernetes/node/bin/kubelet", kubelet, "kubernetes/node/bin/kubeadm", kubelet,
		"kubernetes/node/bin/kubectl", program(elf.EM_X86_64, "v1.30.0"), "kubernetes/node/bin/kube-proxy", kubelet)
	for name, c := range map[string]struct{ content, takes, fault string }{
		"as Kubernetes releases it":    {gzipped(t, node), "kubelet amd64, kubeadm amd64, kubectl amd64", ""},
		"not compressed":               {node, "kubelet amd64, kubeadm amd64, kubectl amd64", ""},
		"plugins":                      {archive(t, "./", "", "./bridge", program(elf.EM_AARCH64, ""), "./README.md", "x", "./host-local", program(elf.EM_AARCH64, "")), "bridge arm64 plugin, host-local arm64 plugin", ""},
		"of two architectures":         {archive(t, "a/kubelet", kubelet, "b/kubelet", program(elf.EM_S390, "v1.34.4")), "kubelet amd64, kubelet s390x", ""},
		"of no agent's":                {archive(t, "kubectl", program(elf.EM_MIPS, "")), "kubectl EM_MIPS", `holds programs for the architecture "EM_MIPS"; expected`},
		"a folder of that name":        {archive(t, "kubelet/", "", "kubelet/kubelet", kubelet), "kubelet amd64", ""},
		"another version":              {archive(t, "kubelet", program(elf.EM_X86_64, "v1.34.3"), "kubeadm", program(elf.EM_X86_64, "v1.33.4")), "kubelet amd64, kubeadm amd64", "has a kubelet of another version: the text v1.34.4 is nowhere in it"},
		"nothing that is taken":        {archive(t, "kube-proxy", kubelet, "docs/readme", ""), "", `holds none of the programs that machines take: "kubelet", "kubeadm", "kubectl", and the CNI plugins`},
		"a script":                     {archive(t, "bin/kubelet", "#!/bin/sh\nexec /opt/kubelet"), "", `has "bin/kubelet", which is no program for Linux (ELF)`},
		"an empty file":                {archive(t, "bridge", ""), "", `has "bridge", which is no program`},
		"one byte":                     {archive(t, "bridge", "\x7f"), "", `has "bridge", which is no program`},
		"a symbolic link":              {member(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "kubelet", Linkname: "/etc/shadow"}), "", `has "kubelet" as a link or a special file`},
		"a hard link":                  {member(t, tar.Header{Typeflag: tar.TypeLink, Name: "kubelet", Linkname: "etc/shadow"}), "", `has "kubelet" as a link or a special file`},
		"a device":                     {member(t, tar.Header{Typeflag: tar.TypeChar, Name: "bridge"}), "", `has "bridge" as a link or a special file`},
		"a link of no use":             {member(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "other", Linkname: "/etc/shadow"}) + archive(t, "kubelet", kubelet), "kubelet amd64", ""},
		"outside":                      {archive(t, "../../usr/bin/kubelet", kubelet), "", `has a member "../../usr/bin/kubelet", which is outside of it`},
		"absolute":                     {archive(t, "/usr/bin/kubelet", kubelet), "", `has a member "/usr/bin/kubelet"`},
		"too large":                    {member(t, tar.Header{Typeflag: tar.TypeReg, Name: "kubelet", Size: 2 << 30}), "", `has "kubelet" of 2147483648 bytes; at most 1073741824 are taken`},
		"cut off":                      {node[:len(node)/8], "kubelet amd64", "is cut off or damaged; get it again"},
		"cut off in a program's head":  {node[:2*512+512+10], "", "is cut off or damaged"},
		"gzip, cut off":                {gzipped(t, node)[:200], "kubelet amd64", "is cut off or damaged"},
		"gzip, wrong checksum":         {flip(gzipped(t, node), 8), "kubelet amd64, kubeadm amd64, kubectl amd64", "is cut off or damaged"},
		"empty":                        {"", "", "is empty; expected a tar archive, plain or by gzip, as Kubernetes"},
		"a text":                       {"hello", "", "is not a tar archive; expected a tar archive"},
		"zip":                          {"PK\x03\x04 and more", "", "is compressed by zip"},
		"an archive without a member":  {archive(t), "", "holds none of the programs"},
		"a version at a buffer's edge": {archive(t, "kubelet", program(elf.EM_X86_64, "")[:256<<10-3]+"v1.34.4"), "kubelet amd64", ""},
	} {
		t.Run(name, func(t *testing.T) {
			faults, _ := check(t, params.UsePrograms, c.content, p)
			expect(t, "faults", faults, c.fault)
			var takes []string
			_ = params.ReadPrograms(strings.NewReader(c.content), func(p params.Program, content io.Reader) error {
				takes = append(takes, strings.TrimSuffix(fmt.Sprintf("%s %s %s", p.Name, p.Architecture, map[bool]string{true: "plugin"}[p.Plugin]), " "))
				return nil
			})
			if got := strings.Join(takes, ", "); got != c.takes {
				t.Errorf("takes %q, want %q", got, c.takes)
			}
		})
	}
	if faults, _ := check(t, params.UsePrograms, archive(t, "kubelet", program(elf.EM_X86_64, "v1"), "kubeadm", program(elf.EM_X86_64, "v2")), p); strings.Count(faults, "\n") != 1 {
		t.Errorf("not each of two faults at once:\n%s", faults)
	}
}

// A program is given whole, and each error stays what it is.
func TestWhatIsTakenOfAProgram(t *testing.T) {
	kubelet := program(elf.EM_X86_64, "the end")
	content := archive(t, "kubelet", kubelet)
	own := errors.New("the disk is full")
	err := params.ReadPrograms(strings.NewReader(content), func(_ params.Program, r io.Reader) error {
		if got, err := io.ReadAll(r); string(got) != kubelet || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		return own
	})
	if !errors.Is(err, own) {
		t.Errorf("the taker's error became %v", err)
	}
	broken := io.MultiReader(strings.NewReader(content[:5000]), iotest.ErrReader(own))
	if err := params.ReadPrograms(broken, func(params.Program, io.Reader) error { return nil }); !errors.Is(err, own) {
		t.Errorf("the reader's error became %v", err)
	}
}

func TestArchivesOfImages(t *testing.T) {
	const config, pause = `{"architecture":"amd64"}`, "registry.k8s.io/pause:3.10.1"
	saved := func(tags string) string { return `[{"Config":"c.json","RepoTags":[` + tags + `]}]` }
	const layout = `{"imageLayoutVersion":"1.0.0"}`
	oci := func(name string) string {
		return archive(t, "oci-layout", layout, "index.json", ociTagged("io.containerd.image.name", name), "blobs/sha256/aa", ociManifest, "blobs/sha256/bb", config, "blobs/sha256/cc", "x")
	}
	for name, c := range map[string]struct{ content, names, fault string }{
		"as docker save writes it": {archive(t, "c.json", config, "manifest.json", saved(`"`+pause+`","example.com:5000/a/b:1"`)), pause + " example.com:5000/a/b:1", ""},
		"by gzip":                  {gzipped(t, archive(t, "manifest.json", saved(`"`+pause+`"`), "c.json", config)), pause, ""},
		"a short name":             {archive(t, "c.json", config, "manifest.json", saved(`"busybox:1"`)), "docker.io/library/busybox:1", ""},
		"OCI":                      {oci(pause), pause, ""},
		"OCI beside manifest.json": {archive(t, "oci-layout", layout, "index.json", ociTagged("io.containerd.image.name", pause), "blobs/sha256/aa", "{}", "c.json", config, "manifest.json", saved(`"other:1"`)), pause, ""},
		"index.json that is none":  {archive(t, "index.json", "{}", "c.json", config, "manifest.json", saved(`"`+pause+`"`)), pause, ""},
		"OCI without its mark":     {archive(t, "index.json", ociTagged("io.containerd.image.name", pause), "blobs/sha256/aa", "{}"), "", "lacks oci-layout"},
		"OCI with a tag alone":     {archive(t, "oci-layout", layout, "index.json", ociTagged("org.opencontainers.image.ref.name", "3.10.1")), "", `holds no image with a whole name, such as registry.k8s.io/pause:3.10.1 (found: "3.10.1")`},
		"saved by its id":          {archive(t, "c.json", config, "manifest.json", saved("")), "", "holds no image with a whole name"},
		"a file is missing":        {archive(t, "manifest.json", saved(`"`+pause+`"`)), "", `lacks "c.json", which is part of "` + pause + `"; save the images again`},
		"of no agent's":            {archive(t, "c.json", `{"architecture":"mips"}`, "manifest.json", saved(`"`+pause+`"`)), pause, `holds images for the architecture "mips"`},
		"some other tar":           {archive(t, "etc/passwd", "x"), "", "without manifest.json or index.json; expected the file that `docker save` or `ctr images export` writes"},
		"a text":                   {"hello", "", "not a tar archive"},
		"xz":                       {"\xfd7zXZ\x00 more", "", "compressed by xz"},
		"cut off":                  {oci(pause)[:1200], "", "cut off or damaged; save the image again"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, warnings := check(t, params.UseImages, c.content, nil)
			expect(t, "faults", faults, c.fault)
			expect(t, "warnings", warnings, "")
			images, err := params.ReadImages(strings.NewReader(c.content))
			if got := strings.Join(images.Names, " "); got != c.names || (err == nil) != (c.names != "") {
				t.Errorf("names %q, %v; want %q", got, err, c.names)
			}
		})
	}
}

// What none of the archives has is said once for all of them.
func TestWhatArchivesLackTogether(t *testing.T) {
	parse := func(attributes string) *params.Params {
		p, report := params.Parse(kubernetes("", attributes), "")
		if p == nil {
			t.Fatal(report.Faults)
		}
		return p
	}
	kube := func(repository, version string) (names []string) {
		for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
			names = append(names, repository+"/"+name+":v"+version)
		}
		return append(names, repository+"/pause:3.10.1", repository+"/etcd:3.6.5-0")
	}
	const all, programs, images = "registry.k8s.io/coredns/coredns:v1.12.1", params.UsePrograms, params.UseImages
	for name, c := range map[string]struct {
		p    *params.Params
		held []params.Held
		warn string
	}{
		"nothing is brought": {parse(""), []params.Held{{Use: fileUse(params.UseScript)}}, ""},
		"all programs":       {parse(""), []params.Held{{Use: fileUse(programs), Holds: []string{"bridge"}}, {Use: fileUse(programs), Holds: []string{"kubeadm", "kubelet"}}}, ""},
		"plugins alone":      {parse(""), []params.Held{{Use: fileUse(programs), Holds: []string{"bridge"}}}, "/program_archive_paths: no archive has kubelet, kubeadm; the machines' image has to"},
		"all images":         {parse(""), []params.Held{{Use: fileUse(images), Holds: kube("registry.k8s.io", "1.34.4")}, {Use: fileUse(images), Holds: []string{all}}}, ""},
		"of another place":   {parse(`, "image_repository": "10.10.0.3:5000/k8s"`), []params.Held{{Use: fileUse(images), Holds: append(kube("10.10.0.3:5000/k8s", "1.34.4"), "10.10.0.3:5000/k8s/coredns:v1.12.1")}}, ""},
		"of another version": {parse(""), []params.Held{{Use: fileUse(images), Holds: append(kube("registry.k8s.io", "1.34.3"), all)}}, "/image_archive_paths: no archive has registry.k8s.io/kube-apiserver:v1.34.4, registry.k8s.io/kube-controller-manager:v1.34.4, registry.k8s.io/kube-scheduler:v1.34.4, registry.k8s.io/kube-proxy:v1.34.4; the machines' image has to, or the machines pull it"},
		"one is missing":     {parse(""), []params.Held{{Use: fileUse(images), Holds: kube("registry.k8s.io", "1.34.4")}}, "no archive has registry.k8s.io/coredns/coredns:; the"},
		"without a cluster":  {nil, []params.Held{{Use: fileUse(images), Holds: []string{"a:1"}}}, ""},
	} {
		report := params.CheckArchives(c.p, "", c.held)
		expect(t, name, report.Warnings.Error(), c.warn)
		if len(report.Faults) > 0 {
			t.Errorf("%s: %v", name, report.Faults)
		}
	}
}

// TestALargeArchiveOfProgramsIsStreamed reads 256 MiB and looks at what was allocated.
func TestALargeArchiveOfProgramsIsStreamed(t *testing.T) {
	const size = 256 << 20
	p, _ := params.Parse(kubernetes("", ""), "")
	reader, writer := io.Pipe()
	go func() {
		w := tar.NewWriter(writer)
		head := program(elf.EM_X86_64, "")
		_ = w.WriteHeader(&tar.Header{Name: "kubelet", Mode: 0o755, Size: size})
		_, _ = io.WriteString(w, head)
		_, _ = io.CopyN(w, zeros{}, size-int64(len(head)))
		_ = writer.CloseWithError(w.Close())
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	report, err := params.CheckFile(fileUse(params.UsePrograms), reader, p, today)
	runtime.ReadMemStats(&after)
	if err != nil || len(report.Faults) != 1 { // it has no version
		t.Fatal(report, err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4<<20 {
		t.Errorf("allocated %d bytes to read %d", allocated, int64(size))
	}
}
