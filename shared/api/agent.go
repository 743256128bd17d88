package api

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/version"
)

// Agent is what an agent says of itself with each poll, in the header Nodehitch-Agent:
//
//	v0.4.0; sections="nfsClient proxy registries storage"; architecture="amd64"
type Agent struct {
	// Version is its build; empty for one that does not say.
	Version string `json:"version,omitempty"`
	// Sections are the sections of a NodeConfig that it understands, ordered.
	Sections []string `json:"sections"`
	// Architecture is the GOARCH of its build; empty for one that does not say.
	Architecture string `json:"architecture,omitempty"`
}

// maxAgentHeader and maxSections bound what a poll may say.
const (
	maxAgentHeader = 2048
	maxSections    = 64
)

// The grammar: a version, then parameters. Those that are not known are for newer
// controllers.
var (
	agentHeader    = regexp.MustCompile(`^(` + version.Grammar + `)((?:; [a-z][a-z0-9-]{0,31}="[ !#-\[\]-~]*")*)$`)
	agentParameter = regexp.MustCompile(`; ([a-z0-9-]+)="([^"]*)"`)
	sectionName    = regexp.MustCompile(`^[a-z][0-9A-Za-z]{0,63}$`)
	architecture   = regexp.MustCompile(`^[a-z0-9]{1,16}$`)
	notOfAVersion  = regexp.MustCompile(`[^0-9A-Za-z._+~:/@-]`)
)

// ThisAgent is what an agent of this build says of itself.
func ThisAgent(build string) Agent {
	names := Sections()
	slices.Sort(names)
	return Agent{Version: build, Sections: names, Architecture: runtime.GOARCH}
}

// FirstAgent is what is known of an agent that says nothing of itself: it understands
// what the first release does, exactly.
func FirstAgent() Agent {
	names := slices.Clone(firstSections)
	slices.Sort(names)
	return Agent{Sections: names}
}

// Header is the value of Nodehitch-Agent. A version that a linker was given and that does
// not fit is made to, so that it never keeps an agent from its configuration.
func (a Agent) Header() string {
	build := notOfAVersion.ReplaceAllString(a.Version, "_")
	if build == "" {
		build = "unknown"
	}
	header := fmt.Sprintf(`%s; sections="%s"`, build[:min(len(build), 64)], strings.Join(a.Sections, " "))
	if a.Architecture != "" {
		header += fmt.Sprintf(`; architecture="%s"`, a.Architecture)
	}
	return header
}

// MaxControllerURLs is how many URLs of itself a controller may tell its agents, and how
// many an agent remembers.
const MaxControllerURLs = 8

// LongestRetry is how long an agent waits at most before it tries again what failed.
const LongestRetry = time.Minute

// Limits of the specification of the API: LongestMessage is how many characters the message of a
// condition has at most, MostAdoptable how many volumes a condition names as adoptable, and
// LongestCACertificate how many characters the certificate authority of a cluster has.
const (
	LongestMessage       = 4096
	MostAdoptable        = 16
	LongestCACertificate = 16384
)

// WantedAgent is the agent that a controller wants on a node: headers of a poll's answer.
type WantedAgent struct {
	Version   string `json:"version"`
	SHA256    string `json:"sha256"`
	SizeBytes int64  `json:"sizeBytes"`
}

// ParseAgent reads the value of Nodehitch-Agent, which a node has written: it is bounded
// and in visible ASCII afterwards. The error says what was expected and repeats nothing.
func ParseAgent(header string) (Agent, error) {
	expected := errors.New(`expected a version and the sections that the agent understands, such as v0.4.0; sections="nfsClient proxy"`)
	if len(header) > maxAgentHeader {
		return Agent{}, fmt.Errorf("has more than %d bytes", maxAgentHeader)
	}
	parts := agentHeader.FindStringSubmatch(header)
	if parts == nil {
		return Agent{}, expected
	}
	given := map[string]string{}
	for _, p := range agentParameter.FindAllStringSubmatch(parts[2], -1) {
		if _, twice := given[p[1]]; twice {
			return Agent{}, expected
		}
		given[p[1]] = p[2]
	}
	names, said := given["sections"]
	a := Agent{Version: parts[1], Sections: strings.Fields(names), Architecture: given["architecture"]}
	slices.Sort(a.Sections)
	a.Sections = slices.Compact(a.Sections)
	switch {
	case !said, a.Architecture != "" && !architecture.MatchString(a.Architecture), slices.ContainsFunc(a.Sections, func(name string) bool { return !sectionName.MatchString(name) }):
		return Agent{}, expected
	case len(a.Sections) > maxSections:
		return Agent{}, fmt.Errorf("names more than %d sections", maxSections)
	}
	return a, nil
}

// Understands reports whether the agent understands a section.
func (a Agent) Understands(section string) bool { return slices.Contains(a.Sections, section) }

// UnderstandsAll reports whether it understands every section that this build knows, so that
// nothing can be withheld from it.
func (a Agent) UnderstandsAll() bool {
	return !slices.ContainsFunc(sections, func(s section) bool { return !a.Understands(s.name) })
}

// Equal reports whether both say the same.
func (a Agent) Equal(b Agent) bool {
	return a.Version == b.Version && a.Architecture == b.Architecture && slices.Equal(a.Sections, b.Sections)
}
