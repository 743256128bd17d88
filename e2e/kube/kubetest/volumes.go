package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

// Administered is a cluster whose administrator runs kubectl: a *kube.Cluster, or one that machines
// have made.
type Administered interface {
	Kubectl(ctx context.Context, args ...string) (string, error)
}

// Kubectl runs kubectl as the administrator, which has to succeed, and returns what it printed,
// without the white space around it.
func Kubectl(t *testing.T, c Administered, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// Volume is a PersistentVolume as the cluster has it.
type Volume struct {
	Metadata struct{ Name, UID, ResourceVersion string }
	Spec     struct {
		NFS      struct{ Server, Path string }
		ClaimRef *struct{ Namespace, Name string }
	}
	Status struct{ Phase string }
}

func (v Volume) String() string {
	return fmt.Sprintf("%s %s %s:%s", v.Metadata.Name, v.Status.Phase, v.Spec.NFS.Server, v.Spec.NFS.Path)
}

// VolumeNames are those of the manifests in e2e/cluster's VNF package; what each exports is
// its number.
var VolumeNames = []string{"nfs-pv1", "nfs-pv2", "nfs-pv3"}

// Volumes are all PersistentVolumes by name.
func Volumes(t *testing.T, c Administered) map[string]Volume {
	t.Helper()
	var list struct{ Items []Volume }
	if err := json.Unmarshal([]byte(Kubectl(t, c, "get", "pv", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]Volume{}
	for _, v := range list.Items {
		all[v.Metadata.Name] = v
	}
	return all
}

// Available waits until the three volumes of the package are Available, and no other is there,
// each at the server's address and its own directory.
func Available(t *testing.T, c Administered, server netip.Addr) {
	t.Helper()
	sitetest.Until(t, "three volumes are Available", func() error {
		all := Volumes(t, c)
		if names := slices.Sorted(maps.Keys(all)); !slices.Equal(names, VolumeNames) {
			return fmt.Errorf("there are %q", names)
		}
		for i, name := range VolumeNames {
			v := all[name]
			want := fmt.Sprintf("%s Available %s:/volume/nfs/pv%d", name, server, i+1)
			if v.String() != want {
				return fmt.Errorf("it is %s; want %s", v, want)
			}
		}
		return nil
	})
}
