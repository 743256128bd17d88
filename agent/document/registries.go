package document

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/distribution/reference"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

func (c *checker) registry(r *api.RegistrySection, at fault.At) {
	image := at.Key("image")
	_, notOne := reference.ParseNormalizedNamed(r.Image.Reference) // as the engine's client reads it
	switch {
	case (r.Image.File == nil) == (r.Image.Reference == ""):
		c.say(image, "expected exactly one of file and reference")
	case r.Image.File != nil:
		c.file(r.Image.File, image.Key("file"))
	case notOne != nil:
		c.say(image.Key("reference"), "expected an image, such as registry:latest or registry.example.com:5000/library/registry:2")
	}
	if r.Port < 1 || r.Port > 65535 {
		c.say(at.Key("port"), "expected a TCP port from 1 to 65535")
	}
	_, err := grammar.DataDirectory(r.DataDirectory)
	c.must(at.Key("dataDirectory"), err)
}

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (c *checker) file(f *api.FileReference, at fault.At) {
	if !sha256Hex.MatchString(f.Sha256) { // it becomes a file's name
		c.say(at.Key("sha256"), "expected 64 hexadecimal digits in lower case")
	}
	if f.SizeBytes < 0 {
		c.say(at.Key("sizeBytes"), "is negative; expected the size in bytes")
	}
}

func (c *checker) registries(registries []api.RegistryConnection, at fault.At) {
	for i, r := range registries {
		here := at.Index(i)
		c.connection(&r, here)
		for _, other := range registries[:i] {
			if strings.EqualFold(other.Server, r.Server) {
				c.say(here.Key("server"), "is given twice")
			}
		}
	}
}

func (c *checker) connection(r *api.RegistryConnection, at fault.At) {
	_, err := grammar.RegistryServer(r.Server)
	c.must(at.Key("server"), err)
	if !r.Scheme.Valid() {
		c.say(at.Key("scheme"), "expected http or https")
	}
	if (r.Username == "") != (r.Password == "") {
		c.say(at, "expected both username and password, or neither")
	}
	if strings.ContainsRune(r.Username, ':') || strings.ContainsFunc(r.Username, control) {
		c.say(at.Key("username"), "holds a colon or a control character, which basic authentication cannot carry")
	}
	if strings.Contains(r.Password, "\x00") {
		c.say(at.Key("password"), "holds a NUL character, where Docker cuts it off") // not repeated
	}
	if r.CACertificate != nil {
		c.file(r.CACertificate, at.Key("caCertificate"))
	}
	if r.HostsEntry != nil {
		c.hostsEntry(r.HostsEntry, at.Key("hostsEntry"))
	}
}

// hostsEntry wants the members to be what they say by themselves, and a line of
// hosts(5) together.
func (c *checker) hostsEntry(h *api.HostsEntry, at fault.At) {
	if _, err := netip.ParseAddr(h.Address); err != nil {
		c.say(at.Key("address"), "expected an IP address")
		return
	}
	if len(h.Names) == 0 {
		c.say(at.Key("names"), "expected at least one host name")
		return
	}
	for i, name := range h.Names {
		_, names, err := grammar.HostsLine(h.Address + " " + name)
		if err == nil && (len(names) != 1 || names[0] != name) {
			c.say(at.Key("names").Index(i), "expected one host name")
		}
		c.must(at.Key("names").Index(i), err)
	}
}

func control(r rune) bool { return r < ' ' || r == 0x7f }
