package params_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// FuzzParse reads any body and asserts that nothing panics, that a body is either
// taken or has a fault, that what is taken satisfies the grammars that others
// rely on, and that the redacted body is JSON without the secrets, and is refused.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.json", "testdata/broken/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		request, report := params.ParseRequest(body)
		if (request == nil) == (len(report.Faults) == 0) {
			t.Errorf("request %v with faults %v", request, report.Faults)
		}
		_, _ = params.Parse(body, "/x")
		redacted := params.Redact(body)
		if !json.Valid(redacted) {
			t.Errorf("redacted to %q", redacted)
		}
		if left := params.Secrets(redacted); strings.Trim(strings.ReplaceAll(strings.Join(left, ""), params.Redacted, ""), " ") != "" {
			t.Errorf("secrets left: %q", left)
		}
		if again, _ := params.ParseRequest(redacted); again != nil && !bytes.Equal(redacted, body) {
			t.Errorf("accepted without its secrets: %s", redacted)
		}
		params.Files(report.Partial, "/x")
		if request != nil {
			checkParams(t, request.Params)
		}
	})
}

// checkParams asserts what the rest of the project relies on.
func checkParams(t *testing.T, p *params.Params) {
	t.Helper()
	if (p.Cluster == nil) == (p.Registry == nil) {
		t.Fatalf("not exactly one VNF: %+v", p)
	}
	for _, use := range params.Files(p, "") {
		if again, err := grammar.PackagePath(use.Path); err != nil || again != use.Path || !filepath.IsLocal(use.Path) {
			t.Errorf("file %q: %v", use.Path, err)
		}
	}
	if r := p.Registry; r != nil {
		if _, err := grammar.DataDirectory(r.DataDirectory()); err != nil || r.Port == 0 || r.SSHCPName == "" ||
			r.Volume != nil && (r.Volume.ResourceID == "" || r.Volume.MountTo == "") {
			t.Errorf("registry %+v: %v", r, err)
		}
		return
	}
	for _, c := range p.Cluster.Registries {
		if _, err := grammar.RegistryServer(c.Server); err != nil || (c.Username == "") != c.Password.IsZero() {
			t.Errorf("connection %+v: %v", c, err)
		}
		if c.HostsEntry != nil {
			if _, _, err := grammar.HostsLine(c.HostsEntry.String()); err != nil {
				t.Errorf("hosts entry %q: %v", c.HostsEntry, err)
			}
		}
	}
	m := p.Cluster.Master
	if m.PodCIDR != m.PodCIDR.Masked() || m.ClusterCIDR != m.ClusterCIDR.Masked() || m.NICCPName == "" || m.ClusterCPName == "" {
		t.Errorf("master %+v", m)
	}
	if s := p.Cluster.StorageServer; s != nil {
		holdsStorage(t, s)
	} else if len(p.Cluster.PersistentVolumes) > 0 {
		t.Error("persistent volumes without a storage server")
	}
}

func holdsStorage(t *testing.T, s *params.StorageServer) {
	t.Helper()
	mounts := make(map[string]bool)
	for _, v := range s.Volumes {
		if _, err := grammar.MountPath(v.MountTo); err != nil || mounts[v.MountTo] {
			t.Errorf("volume %+v: %v", v, err)
		}
		mounts[v.MountTo] = true
	}
	for _, e := range s.Exports {
		if len(e.To) == 0 || !mounts[e.MountTo] || !grammar.Under(e.Directory, e.MountTo) {
			t.Errorf("export %+v", e)
		}
		for _, to := range e.To {
			if client, err := grammar.ExportClient(to); err != nil || client.String() != to {
				t.Errorf("export %+v: %v", e, err)
			}
		}
		if err := errors.Join(grammar.ExportOptions(e.Options)...); err != nil || len(e.Options) < len(defaultOptions) {
			t.Errorf("export %+v: %v", e, err)
		}
	}
	if len(s.Volumes) == 0 || len(s.Exports) == 0 {
		t.Errorf("storage server without volumes or exports: %+v", s)
	}
}

// FuzzCheckFile gives any content to every use: nothing panics, and no finding
// stands elsewhere or contains control characters.
func FuzzCheckFile(f *testing.F) {
	f.Add(pv1)
	f.Add(pv1 + "---\n" + pv1)
	f.Add(`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"a"},"spec":{"nfs":{"path":"/a"}}}`)
	f.Add("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	f.Add("\x1f\x8b\x08\x00\x00\x00\x00\x00")
	f.Add("a: &a {b: 1}\nc: {<<: *a, 1: 2, ? [x] : y}\n")
	f.Fuzz(func(t *testing.T, content string) {
		for _, use := range []params.Use{params.UseManifest, params.UseCertificate, params.UseImage, params.UseScript} {
			report, err := params.CheckFile(fileUse(use), strings.NewReader(content), nil, today)
			if err != nil {
				t.Fatalf("%s: %v", use, err)
			}
			for _, found := range append(fault.List{}, append(report.Faults, report.Warnings...)...) {
				if found.Pointer != somewhere {
					t.Errorf("%s: %q", use, found)
				}
			}
		}
		volumes, err := params.ReadManifest([]byte(content))
		for _, v := range volumes {
			if _, nameErr := grammar.ObjectName(v.Name); err != nil || nameErr != nil || !strings.HasPrefix(v.NFSPath, "/") || !json.Valid(v.Object) {
				t.Errorf("volume %+v: %v", v, err)
			}
		}
	})
}
