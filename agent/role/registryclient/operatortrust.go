package registryclient

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/probe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// trust is what the operator has put on this machine for one registry, in directories of
// the form that Docker has and containerd knows too: CAs are *.crt, a client certificate is
// a *.cert with its *.key.
type trust struct {
	cas   []string
	pairs []containerdconf.Pair
	// The same as content.
	pem          []byte
	certificates []tls.Certificate
}

func (t *trust) add(other trust) {
	t.cas = append(t.cas, other.cas...)
	t.pairs = append(t.pairs, other.pairs...)
	t.pem = append(t.pem, other.pem...)
	t.certificates = append(t.certificates, other.certificates...)
}

// trusts reads what the engines of this machine trust for each registry, before it is
// probed. Docker reads only its own directory. containerd would read that of its
// config_path, and our hosts.toml hides it, so hosts.toml has all of both.
func (p *plan) trusts() {
	for _, c := range p.connections {
		if c.Scheme != api.RegistryHTTPS {
			continue
		}
		docker := filepath.Join(dockerCertificates, containerdconf.DirectoryName(c.Server))
		var ofDocker, all trust
		ofDocker, c.untrusted = p.directoryTrust(docker, c.Server, p.docker.has)
		all.add(ofDocker)
		if p.cri != nil {
			if dir := p.hidden(c.Server); dir != "" && dir != docker {
				more, err := p.directoryTrust(dir, c.Server, false)
				if c.untrusted == nil {
					c.untrusted = err
				}
				all.add(more)
			}
		}
		c.trust = all
		probed := all
		if p.docker.has {
			probed = ofDocker
			c.onlyContainerd = slices.DeleteFunc(slices.Clone(all.cas), func(path string) bool { return slices.Contains(ofDocker.cas, path) })
		}
		c.target.Trust = probe.Trust{CAs: probed.pem, Client: probed.certificates}
		if c.untrusted != nil {
			p.problem(c.untrusted)
		}
	}
}

// hidden is the directory that containerd would read for a server without our hosts.toml,
// "" for none: the first that exists.
func (p *plan) hidden(server string) string {
	for _, root := range p.cri.directories() {
		for _, name := range append(containerdconf.DirectoryNamesBefore(server), containerdconf.DirectoryName(server), defaultDirectory) {
			dir := filepath.Join(root, name)
			files, err := p.Host.Files.Match(pattern(dir, "*"))
			if err != nil {
				continue
			}
			ours := func(path string) bool { return slices.Contains(p.have.Files, ownedPart{path, server}) }
			if empty, err := p.Host.Files.Match(pattern(dir, "")); len(files) > 0 && !slices.ContainsFunc(files, func(path string) bool { return !ours(path) }) ||
				len(files) == 0 && (err != nil || len(empty) == 0) {
				continue
			}
			return dir
		}
	}
	return ""
}

// pattern matches the files of a directory whose name may contain the brackets of IPv6.
func pattern(dir, files string) string {
	return filepath.Join(strings.NewReplacer(`\`, `\\`, "[", `\[`, "*", `\*`, "?", `\?`).Replace(dir), files)
}

// directoryTrust reads a directory, without the agent's own files. It is an error if
// Docker (strict) or containerd would refuse a file there.
func (p *plan) directoryTrust(dir, server string, strict bool) (trust, error) {
	var t trust
	files, err := p.Host.Files.Match(pattern(dir, "*"))
	if err != nil {
		return t, err
	}
	for _, path := range files {
		stem, kind := strings.TrimSuffix(path, filepath.Ext(path)), filepath.Ext(path)
		switch {
		case kind == ".crt" && !slices.Contains(p.have.Files, ownedPart{path, server}):
			content, err := p.read(path)
			if err != nil {
				return t, err
			}
			if x509.NewCertPool().AppendCertsFromPEM(content) { // Docker ignores any other
				t.cas, t.pem = append(t.cas, path), append(append(t.pem, '\n'), content...)
			}
		case kind == ".cert":
			if err := p.addPair(&t, path, stem+".key", strict); err != nil {
				return t, err
			}
		case kind == ".key" && strict && !slices.Contains(files, stem+".cert"):
			return t, converge.Wait(api.ReasonEngineConfigInvalid, "%s has no %s beside it, and Docker refuses the directory; add it, or move the key away", path, filepath.Base(stem)+".cert")
		}
	}
	return t, nil
}

// addPair adds a client certificate. containerd takes one whose file contains the key too.
func (p *plan) addPair(t *trust, path, keyPath string, strict bool) error {
	certificate, err := p.read(path)
	if err != nil {
		return err
	}
	key, err := p.read(keyPath)
	switch {
	case err != nil:
		return err
	case key == nil && strict:
		return converge.Wait(api.ReasonEngineConfigInvalid, "%s has no %s beside it, and Docker refuses the directory; a client certificate needs its key, and the name of a CA's file has to end in .crt", path, filepath.Base(keyPath))
	case key == nil:
		key, keyPath = certificate, ""
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return converge.Wait(api.ReasonEngineConfigInvalid, "%s and its key are no client certificate, and pulls fail with them: %v", path, err)
	}
	t.pairs = append(t.pairs, containerdconf.Pair{Certificate: path, Key: keyPath})
	t.certificates = append(t.certificates, pair)
	return nil
}
