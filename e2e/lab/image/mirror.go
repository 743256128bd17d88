package image

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// EnvMirror names the mirror of Debian's archive, and after a space that of its security
// archive, if machines are to have security updates. Unset, the host's own apt sources
// say both.
const EnvMirror = "NODEHITCH_MIRROR"

// Keyring holds the keys of Debian's archive: of the host, which may be
// Ubuntu, and by the same path of the machine.
const Keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// Sources returns the lines of sources.list for a Debian release. The security archive is
// among them if it is known: a machine works without it, with the packages of the last
// point release. An error says what to set.
func Sources(ctx context.Context, release string) ([]string, error) {
	var m mirrors
	var err error
	if named := os.Getenv(EnvMirror); named != "" {
		m, err = namedMirrors(named)
	} else {
		m, err = aptHost{osRelease: "/etc/os-release"}.mirrors(ctx, release)
	}
	if err != nil {
		return nil, err
	}
	lines := []string{m.line(m.archive, release), m.line(m.archive, release+"-updates")}
	if m.security != "" {
		lines = append(lines, m.line(m.security, release+"-security"))
	}
	return lines, nil
}

// mirrors are base URLs, without a slash at the end; security may be empty.
type mirrors struct{ archive, security string }

func (mirrors) line(base, suite string) string {
	return fmt.Sprintf("deb [signed-by=%s] %s %s main", Keyring, base, suite)
}

func namedMirrors(named string) (mirrors, error) {
	bases := strings.Fields(named)
	if len(bases) == 0 || len(bases) > 2 {
		return mirrors{}, fmt.Errorf("%s has %d words: want the URL of Debian's archive, and after a space that of its security archive if there is one", EnvMirror, len(bases))
	}
	for i, base := range bases {
		if !usable(base) {
			return mirrors{}, fmt.Errorf("word %d of %s is no http or https URL without a password", i+1, EnvMirror)
		}
		bases[i] = strings.TrimRight(base, "/")
	}
	return mirrors{archive: bases[0], security: strings.Join(bases[1:], "")}, nil
}

// usable: machines reach what http serves, and no password gets into an argv.
func usable(base string) bool {
	u, err := url.Parse(base)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// aptHost is a host with apt.
type aptHost struct {
	osRelease string
	options   []string // of apt-get
}

// mirrors reads the host's apt sources. Its own release counts too, because a mirror has
// all releases. Other publishers also use Debian's suite names, so a mirror that has the
// updates as well comes first.
func (h aptHost) mirrors(ctx context.Context, release string) (mirrors, error) {
	own, err := h.release()
	if err != nil {
		return mirrors{}, err
	}
	targets, err := h.targets(ctx)
	if err != nil {
		return mirrors{}, err
	}
	find := func(suffix string) string {
		for _, t := range targets {
			name, found := strings.CutSuffix(t.suite, suffix)
			if found && slices.Contains([]string{release, own, "stable", "oldstable"}, name) {
				return t.base
			}
		}
		return ""
	}
	m := mirrors{archive: find("-updates"), security: find("-security")}
	if m.archive == "" {
		m.archive = find("")
	}
	if m.archive == "" {
		return mirrors{}, errNoMirror("no http or https mirror of Debian's archive among the apt sources of this host")
	}
	return m, nil
}

func errNoMirror(why string) error {
	return errors.New(why + ": set " + EnvMirror + " to the URL of one, such as http://mirror.example/debian")
}

// release is the code name of the Debian release that the host runs.
func (h aptHost) release() (string, error) {
	text, err := os.ReadFile(h.osRelease)
	if err != nil {
		return "", err
	}
	field := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		field[name] = strings.Trim(value, `"'`)
	}
	if field["ID"] != "debian" {
		return "", errNoMirror(fmt.Sprintf("this host runs %q, whose apt sources name no mirror of Debian's archive", field["ID"]))
	}
	return field["VERSION_CODENAME"], nil
}

type target struct{ suite, base string }

// targets asks apt, which reads every form of its sources, for those with packages of the
// component main. It needs no downloaded lists.
func (h aptHost) targets(ctx context.Context) ([]target, error) {
	argv := append(slices.Clone(h.options), "indextargets", "--option=APT::Get::IndexTargets::ReleaseInfo=false",
		"--format=$(RELEASE) $(REPO_URI)", "Created-By: Packages", "Component: main")
	cmd := exec.CommandContext(ctx, "apt-get", argv...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("asking apt for the sources of this host: %w: %s", err, strings.TrimSpace(said.String()))
	}
	var found []target
	for line := range strings.Lines(string(out)) {
		suite, base, _ := strings.Cut(strings.TrimSpace(line), " ")
		if base, err = oneMirror(base); err != nil {
			return nil, err
		}
		if usable(base) {
			found = append(found, target{suite, strings.TrimRight(base, "/")})
		}
	}
	return found, nil
}

// oneMirror is the first of the list that a mirror+file: URL names, as Debian's cloud
// images have it. Any other URL stays as it is.
func oneMirror(base string) (string, error) {
	list, isList := strings.CutPrefix(base, "mirror+file:")
	if !isList {
		return base, nil
	}
	// apt ends every URL with a slash, and takes // before an absolute path.
	text, err := os.ReadFile("/" + strings.Trim(list, "/"))
	if err != nil {
		return "", fmt.Errorf("reading the list of mirrors: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 0 && usable(words[0]) {
			return words[0], nil
		}
	}
	return "", nil
}
