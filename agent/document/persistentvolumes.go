package document

import (
	"encoding/json"
	"net/netip"
	"path"
	"slices"

	kjson "sigs.k8s.io/json"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// manifest is what has to be right of one; the rest is the API server's to check.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		NFS struct {
			Server string `json:"server"`
			Path   string `json:"path"`
		} `json:"nfs"`
	} `json:"spec"`
}

func (c *checker) persistentVolumes(s *api.PersistentVolumesSection, at fault.At) {
	if !s.State.Valid() {
		c.say(at.Key("state"), "expected present or absent")
	}
	if len(s.Servers) == 0 {
		c.say(at.Key("servers"), "expected the IP addresses of the storage server")
	}
	for i, server := range s.Servers {
		if _, err := netip.ParseAddr(server); err != nil {
			c.say(at.Key("servers").Index(i), "expected an IP address of the storage server, such as 10.10.0.5")
		}
	}
	if s.Manifests == nil { // an empty list has all of ours deleted: it has to be meant
		c.say(at.Key("manifests"), "expected a list, [] for none")
	}
	names := map[string]bool{}
	for i, raw := range s.Manifests {
		name := c.manifest(raw, s.Servers, at.Key("manifests").Index(i))
		if names[name] {
			c.say(at.Key("manifests").Index(i).Key("metadata").Key("name"), "is the name of another manifest already")
		}
		names[name] = name != ""
	}
}

// manifest checks one and returns its name, "" if it has none that is right. Names
// of fields are told apart by case, as the API server does.
func (c *checker) manifest(raw json.RawMessage, servers []string, at fault.At) string {
	var m manifest
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &m); err != nil {
		c.say(at, "expected an object of Kubernetes: "+err.Error())
		return ""
	}
	if m.APIVersion != "v1" || m.Kind != "PersistentVolume" {
		c.say(at.Key("kind"), "expected a PersistentVolume of v1 and nothing else")
	}
	nfs := at.Key("spec").Key("nfs")
	if !slices.Contains(servers, m.Spec.NFS.Server) {
		c.say(nfs.Key("server"), "is none of the section's servers")
	}
	if !path.IsAbs(m.Spec.NFS.Path) {
		c.say(nfs.Key("path"), "expected an absolute path")
	}
	if _, err := grammar.ObjectName(m.Metadata.Name); err != nil {
		c.must(at.Key("metadata").Key("name"), err)
		return ""
	}
	return m.Metadata.Name
}
