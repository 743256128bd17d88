package kubetest

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// Machines is the Kubelet of the machines of a test, for lab.Spec. It skips the test, with the
// reason, if that is not built. Only a run with the long cases has built it for sure, so there
// the test fails. Call it before the lab is opened: it is let go of when the test ends.
func Machines(t testing.TB) *lab.Kubelet {
	t.Helper()
	machines, err := kube.FindMachines("")
	letGo(t, machines, err)
	return machines.Kubelet
}

// Etcdutl is the path of the program etcdutl, under the conditions of Machines.
func Etcdutl(t testing.TB) string {
	t.Helper()
	found, err := kube.FindEtcdutl("")
	letGo(t, found, err)
	return filepath.Join(found.Dir, "etcdutl")
}

func letGo(t testing.TB, found io.Closer, err error) {
	t.Helper()
	switch {
	case (errors.Is(err, kube.ErrNoMachines) || errors.Is(err, fs.ErrPermission)) && !results.Full():
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := found.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Release is Kubernetes in another version than machines have, or in the same, under the conditions
// of Machines.
func Release(t testing.TB, version string) *kube.Release {
	t.Helper()
	r, err := kube.FindRelease("", version)
	letGo(t, r, err)
	return r
}
