package peers

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
)

// Kubeconfig is the administrator's, on a master.
const Kubeconfig = "/etc/kubernetes/admin.conf"

// Script is a shell script that ends at the first step that fails.
func Script(steps ...string) string { return "set -e\n" + strings.Join(steps, "\n") }

// StorageSteps make a machine that has the NFS server serve the volumes of e2e/cluster's VNF
// package from a disk.
func StorageSteps(volume lab.Disk) []string {
	steps := []string{"mkfs -t ext4 " + volume.Link(), "mkdir -p /volume", "mount " + volume.Link() + " /volume"}
	for i := range kubetest.VolumeNames {
		directory := fmt.Sprintf("/volume/nfs/pv%d", i+1)
		steps = append(steps, "mkdir -p "+directory, "chown nobody:nogroup "+directory,
			"echo '"+directory+" "+lab.Subnet.String()+"(rw,sync,no_subtree_check,insecure,all_squash)' >>/etc/exports")
	}
	return append(steps, "exportfs -ra", "systemctl enable --now nfs-server")
}

// serverLine is the line of a manifest that names the NFS server.
var serverLine = regexp.MustCompile(`(?m)^( +server: ).*$`)

// RegistrationSteps register these volumes on a master, by the manifests of a folder: the
// storage server's address is put in by text, as the samples do it.
func RegistrationSteps(t testing.TB, folder string, storage netip.Addr) (steps []string) {
	t.Helper()
	for _, name := range kubetest.VolumeNames {
		manifest, err := os.ReadFile(filepath.Join(folder, name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text := serverLine.ReplaceAllString(string(manifest), "${1}"+storage.String())
		path := "/tmp/" + name + ".yaml"
		steps = append(steps, "cat >"+path+" <<'END'\n"+text+"END\n", "kubectl --kubeconfig "+Kubeconfig+" apply -f "+path,
			"kubectl --kubeconfig "+Kubeconfig+" wait --for=jsonpath={.status.phase}=Available --timeout=150s pv/"+name)
	}
	return steps
}
