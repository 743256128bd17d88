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

// certificates plans the CA files, which Docker finds by itself and containerd by
// hosts.toml.
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

// group is of the actions that need a registry's CA.
func (c *connection) group() string { return "registry " + c.Server }

// certificatePath is where the CA of a server is or has to be, and whether it is
// right. The owner's own file stays: Docker trusts each .crt of the directory.
func (p *plan) certificatePath(server string, ref api.FileReference) (path string, right bool, err error) {
	for _, name := range []string{certificateName, otherCertificateName} {
		path = filepath.Join(dockerCertificates, server, name)
		content, err := p.read(path)
		if err != nil {
			return "", false, err
		}
		ours := slices.Contains(p.have.Files, ownedPart{path, server})
		if right := is(content, ref); right || ours || content == nil {
			return path, right, nil
		}
	}
	return "", false, converge.Wait(api.ReasonEngineConfigInvalid,
		"both %s and %s are there, and the agent wrote neither; remove one", filepath.Join(dockerCertificates, server, certificateName), path)
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

// certificate is the CA of a server where it is on this machine already, else nil.
func (s *step) certificate(server string, ref api.FileReference) []byte {
	for _, name := range []string{certificateName, otherCertificateName} {
		if content, err := s.read(filepath.Join(dockerCertificates, server, name)); err == nil && is(content, ref) {
			return content
		}
	}
	content, err := s.stored(server, ref)
	if err != nil {
		return nil
	}
	return content
}

// fetch is the CA of a server, from the controller where it is not here.
func (s *step) fetch(ctx context.Context, server string, ref api.FileReference) ([]byte, error) {
	if content := s.certificate(server, ref); content != nil {
		return content, nil
	}
	if err := s.Files.Fetch(ctx, ref); err != nil {
		return nil, err
	}
	return s.stored(server, ref)
}

// largestCertificate is far above what any bundle of CAs has.
const largestCertificate = 4 << 20

// stored is the CA of a server in the store.
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
	if !is(content, ref) {
		return nil, converge.Wait(api.ReasonFileUnavailable, "the file %s is damaged on this machine; it is fetched again", ref.Sha256)
	}
	if _, err := params.ReadCertificates(content); err != nil {
		return nil, converge.Fail(api.ReasonCertificateRejected, "the CA certificate given for %s %v", server, err)
	}
	return content, nil
}

// is says whether the content is that of the file.
func is(content []byte, ref api.FileReference) bool {
	sum := sha256.Sum256(content)
	return content != nil && hex.EncodeToString(sum[:]) == ref.Sha256
}
