package params

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"

	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// maxProgram bounds one program; kubelet has some 80 MB.
const maxProgram = 1 << 30

// What machines take from an archive of programs, by the last part of a member's name.
var (
	kubernetesPrograms = []string{"kubelet", "kubeadm", "kubectl"}
	// cniPlugins are those of the project containernetworking, and flannel's.
	cniPlugins = []string{
		"bandwidth", "bridge", "dhcp", "dummy", "firewall", "flannel", "host-device", "host-local", "ipvlan", "loopback",
		"macvlan", "portmap", "ptp", "sbr", "static", "tap", "tuning", "vlan", "vrf",
	}
)

// Program is a program in an archive.
type Program struct {
	Name string
	// Plugin says that it is a CNI plugin, else it is one of Kubernetes itself.
	Plugin bool
	// Architecture is as GOARCH, or another name if there is no agent for it.
	Architecture string
}

// architectures are those of programs, as GOARCH.
var architectures = map[elf.Machine]string{
	elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_PPC64: "ppc64le", elf.EM_RISCV: "riscv64", elf.EM_S390: "s390x",
}

// ReadPrograms reads an archive (a tar, plain or by gzip) to its end, in bounded memory, and calls
// take for each program that a machine takes from it. All other members are passed over. The
// error is a fault.List without places where the content is wrong, and otherwise that of content
// or of take.
func ReadPrograms(content io.Reader, take func(p Program, content io.Reader) error) error {
	src := &source{reader: content}
	var refused takeError
	err := readArchive(src, programArchive, func(archive *tar.Reader) error { return readPrograms(archive, take) })
	switch {
	case err == nil:
		return nil
	case src.err == nil && errors.As(err, &refused):
		return refused.err
	}
	return src.fault(err)
}

// takeError is an error of who takes a program, and none of the archive.
type takeError struct{ err error }

func (e takeError) Error() string { return e.err.Error() }

func readPrograms(archive *tar.Reader, take func(p Program, content io.Reader) error) error {
	first, found := true, false
	for ; ; first = false {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF) && found:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("holds none of the programs that machines take: %s, and the CNI plugins", listed(kubernetesPrograms))
		case first && errors.Is(err, io.ErrUnexpectedEOF):
			return tar.ErrHeader // shorter than one header
		case err != nil:
			return err
		case !filepath.IsLocal(header.Name):
			return fmt.Errorf("has a member %s, which is outside of it; pack it again", grammar.Show(header.Name))
		}
		p := Program{Name: path.Base(header.Name)}
		p.Plugin = slices.Contains(cniPlugins, p.Name)
		if header.Typeflag == tar.TypeDir || !p.Plugin && !slices.Contains(kubernetesPrograms, p.Name) {
			continue
		}
		content := &source{reader: archive}
		whole, err := p.open(header, content)
		if err != nil {
			return err
		}
		found = true
		switch err := take(p, whole); {
		case content.err != nil:
			return content.err
		case err != nil:
			return takeError{err}
		}
	}
}

// open checks that the member is a program.
func (p *Program) open(header *tar.Header, content io.Reader) (whole io.Reader, err error) {
	switch {
	case header.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("has %s as a link or a special file; expected the program itself", grammar.Show(header.Name))
	case header.Size > maxProgram:
		return nil, fmt.Errorf("has %s of %d bytes; at most %d are taken", grammar.Show(header.Name), header.Size, int64(maxProgram))
	}
	head := make([]byte, 20) // up to e_machine
	if _, err := io.ReadFull(content, head); err != nil && header.Size >= int64(len(head)) {
		return nil, err
	}
	if !bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
		return nil, fmt.Errorf("has %s, which is no program for Linux (ELF)", grammar.Show(header.Name))
	}
	machine := elf.Machine(uint16(head[18]) | uint16(head[19])<<8)
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		machine = elf.Machine(uint16(head[19]) | uint16(head[18])<<8)
	}
	if p.Architecture = architectures[machine]; p.Architecture == "" {
		p.Architecture = machine.String()
	}
	return io.MultiReader(bytes.NewReader(head), content), nil
}

// programs also compares versions: a program that was built as one has it as text.
func (c *fileCheck) programs(content io.Reader) {
	var architectures []string
	version := ""
	if k := c.cluster(); k != nil && k.Kubernetes.Version != "" {
		version = "v" + k.Kubernetes.Version
	}
	err := ReadPrograms(content, func(p Program, content io.Reader) error {
		if !slices.Contains(architectures, p.Architecture) {
			architectures = append(architectures, p.Architecture)
		}
		c.r.holds = append(c.r.holds, p.Name)
		if p.Plugin || p.Name == "kubectl" || version == "" {
			return nil
		}
		has, err := contains(content, version)
		if err == nil && !has {
			c.fault("has a %s of another version: the text %s is nowhere in it; take the archive of that version, or change %s", p.Name, version, keyVersion)
		}
		return err
	})
	if err != nil {
		c.faults(err)
		return
	}
	c.isFor(architectures, "programs")
}

// contains reports whether a text is in a content, which is read up to it.
func contains(content io.Reader, text string) (bool, error) {
	buffer := make([]byte, 128<<10)
	kept := 0
	for {
		n, err := content.Read(buffer[kept:])
		if bytes.Contains(buffer[:kept+n], []byte(text)) {
			return true, nil
		}
		end := kept + n
		kept = min(end, len(text)-1)
		copy(buffer, buffer[end-kept:end])
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
	}
}
