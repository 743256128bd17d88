package pull

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/version"
)

// maxAgent bounds the size of an agent.
const maxAgent = 1 << 30

var (
	versionGrammar = regexp.MustCompile(`^` + version.Grammar + `$`)
	digestGrammar  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// wantedAgent returns the agent that the headers of an answer ask for, nil if they are
// incomplete or malformed.
func wantedAgent(h http.Header) *api.WantedAgent {
	w := &api.WantedAgent{Version: h.Get("Nodehitch-Agent-Version"), SHA256: h.Get("Nodehitch-Agent-Sha256")}
	var err error
	w.SizeBytes, err = strconv.ParseInt(h.Get("Nodehitch-Agent-Size"), 10, 64)
	if err != nil || w.SizeBytes <= 0 || w.SizeBytes > maxAgent || !versionGrammar.MatchString(w.Version) || !digestGrammar.MatchString(w.SHA256) {
		return nil
	}
	return w
}

// controllerURLs returns the valid URLs of the header, each once.
func controllerURLs(h http.Header) []string {
	var urls []string
	for _, raw := range strings.Fields(h.Get("Nodehitch-Controller-Urls")) {
		url, err := grammar.ControllerURL(raw)
		if err == nil && !slices.Contains(urls, url) && len(urls) < api.MaxControllerURLs {
			urls = append(urls, url)
		}
	}
	return urls
}
