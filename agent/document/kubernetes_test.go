package document_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/agent/document"
)

const kubernetesDocument = `{
  "apiVersion": "nodehitch/v1", "epoch": 1, "generation": 3, "role": "master",
  "kubernetes": {"version": "1.34.4", "imageRepository": "10.10.0.3:5000/k8s", "kubeadmConfig": {"sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "sizeBytes": 7},
    "programArchives": [{"sha256": "a123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "sizeBytes": 9}],
    "imageArchives": [{"sha256": "b123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "sizeBytes": 9}]},
  "controlPlane": {"sharedAddress": "10.10.0.9"},
  "podNetwork": {"manifest": {"sha256": "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "sizeBytes": 8}}
}`

func TestFaultsOfKubernetes(t *testing.T) {
	for _, text := range []string{
		kubernetesDocument,
		`{"apiVersion": "nodehitch/v1", "epoch": 1, "generation": 3, "role": "master", "kubernetes": {"version": "1.31.0"}, "controlPlane": {}, "podNetwork": {}}`,
		`{"apiVersion": "nodehitch/v1", "epoch": 1, "generation": 3, "role": "worker", "kubernetes": {"version": "1.31.0"}}`,
	} {
		if _, err := document.Decode([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		old, new string
		pointers []string
	}{
		"a worker":                       {`"role": "master"`, `"role": "worker"`, []string{"/kubernetes/kubeadmConfig", "/controlPlane", "/podNetwork"}},
		"a storage server":               {`"role": "master"`, `"role": "storage"`, []string{"/kubernetes/role", "/kubernetes/kubeadmConfig", "/controlPlane", "/podNetwork"}},
		"no version":                     {`"version": "1.34.4", `, ``, []string{"/kubernetes/version"}},
		"an older version":               {`"1.34.4"`, `"1.30.4"`, []string{"/kubernetes/version"}},
		"a version with a line":          {`"1.34.4"`, `"1.34.4\nx: y"`, []string{"/kubernetes/version"}},
		"a repository that is a flag":    {`"10.10.0.3:5000/k8s"`, `"--config=/x"`, []string{"/kubernetes/imageRepository"}},
		"a repository with a line":       {`"10.10.0.3:5000/k8s"`, `"10.10.0.3:5000/k8s\nx: y"`, []string{"/kubernetes/imageRepository"}},
		"a configuration that is a path": {`{"sha256": "0123456789`, `{"sha256": "../3456789`, []string{"/kubernetes/kubeadmConfig/sha256"}},
		"a configuration of no size":     {`"sizeBytes": 7`, `"sizeBytes": -7`, []string{"/kubernetes/kubeadmConfig/sizeBytes"}},
		"an archive that is a path":      {`{"sha256": "a12`, `{"sha256": "../`, []string{"/kubernetes/programArchives/0/sha256"}},
		"images that are a path":         {`{"sha256": "b12`, `{"sha256": "../`, []string{"/kubernetes/imageArchives/0/sha256"}},
		"an address that is a name":      {`"10.10.0.9"`, `"vip"`, []string{"/controlPlane/sharedAddress"}},
		"an address of no host":          {`"10.10.0.9"`, `"0.0.0.0"`, []string{"/controlPlane/sharedAddress"}},
		"an address with a zone":         {`"10.10.0.9"`, `"fe80::1%eth0"`, []string{"/controlPlane/sharedAddress"}},
		"an address with a line":         {`"10.10.0.9"`, `"10.10.0.9\n}"`, []string{"/controlPlane/sharedAddress"}},
		"a network that is a path":       {`{"sha256": "f`, `{"sha256": "/`, []string{"/podNetwork/manifest/sha256"}},
	} {
		t.Run(name, func(t *testing.T) {
			hasFaults(t, kubernetesDocument, c.old, c.new, c.pointers)
		})
	}
}
