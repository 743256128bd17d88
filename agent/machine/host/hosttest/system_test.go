package hosttest

import (
	"strings"
	"testing"
)

// What exportfs of nfs-utils 2.6.2 printed for these lines of /etc/exports. secure and insecure are
// printed where the kernel serves NFS.
func TestExportsAsExportfsPrintsThem(t *testing.T) {
	for written, want := range map[string]string{
		"rw,no_subtree_check,all_squash,anonuid=5": "sync,wdelay,hide,no_subtree_check,anonuid=5,sec=sys,rw,secure,root_squash,all_squash",
		"ro,async,insecure,no_root_squash":         "async,wdelay,hide,no_subtree_check,sec=sys,ro,insecure,no_root_squash,no_all_squash",
	} {
		if got := strings.Join(printedOptions(strings.Split(written, ",")), ","); got != want {
			t.Errorf("%s: printed as\n%s, expected\n%s", written, got, want)
		}
	}
}
