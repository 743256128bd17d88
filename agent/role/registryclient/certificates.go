package registryclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path/filepath"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// certificates plans the CA files. Docker finds them by their path, and hosts.toml names
// them to containerd.
func (p *plan) certificates() {
	for _, c := range p.connections {
		ref := c.ca()
		if ref == nil {
			continue
		}
		path, right, err := p.certificatePath(c.Server, *ref)
		if err != nil {
			p.problem(err)
			continue
		}
		p.keep[path] = true
		if !right {
			p.do(c.group(), "write the CA of "+c.Server+" to "+path, func(ctx context.Context) error { return p.writeCertificate(ctx, c, path) })
		}
	}
}

// group is the group of the actions that need the registry's CA.
func (c *connection) group() string { return "registry " + c.Server }

// certificatePath returns where the CA of a server is or belongs, and whether the file
// there has the right content. An operator's own file stays: Docker trusts each .crt in
// the directory.
func (p *plan) certificatePath(server string, ref api.FileReference) (path string, right bool, err error) {
	for _, name := range []string{certificateName, otherCertificateName} {
		path = filepath.Join(dockerCertificates, server, name)
		content, err := p.read(path)
		if err != nil {
			return "", false, err
		}
		ours := slices.Contains(p.have.Files, ownedPart{path, server})
		if right := matches(content, ref); right || ours || content == nil {
			return path, right, nil
		}
	}
	return "", false, converge.Wait(api.ReasonEngineConfigInvalid,
		"both %s and %s exist, and the agent wrote neither; remove one", filepath.Join(dockerCertificates, server, certificateName), path)
}

func (p *plan) writeCertificate(ctx context.Context, c *connection, path string) error {
	content, err := p.fetch(ctx, c.Server, *c.ca())
	if err != nil {
		return err
	}
	if err := p.own(func(o *owned) { o.Files = add(o.Files, ownedPart{path, c.Server}) }); err != nil {
		return err
	}
	return p.Host.Files.Write(path, content, publicMode)
}

// certificate returns the CA of a server if it is on this machine already, else nil.
func (s *step) certificate(server string, ref api.FileReference) []byte {
	for _, name := range []string{certificateName, otherCertificateName} {
		if content, err := s.read(filepath.Join(dockerCertificates, server, name)); err == nil && matches(content, ref) {
			return content
		}
	}
	content, err := s.stored(server, ref)
	if err != nil {
		return nil
	}
	return content
}

// fetch returns the CA of a server. If it is not on this machine, it comes from the
// controller.
func (s *step) fetch(ctx context.Context, server string, ref api.FileReference) ([]byte, error) {
	if content := s.certificate(server, ref); content != nil {
		return content, nil
	}
	if err := s.Files.Fetch(ctx, ref); err != nil {
		return nil, err
	}
	return s.stored(server, ref)
}

// largestCertificate is far above the size of any bundle of CAs.
const largestCertificate = 4 << 20

// stored reads the CA of a server from the store.
func (s *step) stored(server string, ref api.FileReference) ([]byte, error) {
	f, err := s.Files.Open(ref)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, largestCertificate))
	if err != nil {
		return nil, err
	}
	if !matches(content, ref) {
		return nil, converge.Wait(api.ReasonFileUnavailable, "the file %s is damaged on this machine; it is fetched again", ref.Sha256)
	}
	if _, err := params.ReadCertificates(content); err != nil {
		return nil, converge.Fail(api.ReasonCertificateRejected, "the CA certificate given for %s %v", server, err)
	}
	return content, nil
}

// matches reports whether the content is that of the file.
func matches(content []byte, ref api.FileReference) bool {
	sum := sha256.Sum256(content)
	return content != nil && hex.EncodeToString(sum[:]) == ref.Sha256
}
