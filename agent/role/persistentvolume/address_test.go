package persistentvolume_test

import (
	"strings"
	"testing"
)

const six = "fd00:10::5"

// six is where pv1 is registered.
func dualStack(t *testing.T) *rig {
	r := master(t)
	r.doc.PersistentVolumes.Servers = []string{server, six}
	r.manifests(manifest("pv1", six))
	r.expect("True Registered")
	r.did("apply pv1")
	if got := spec(r.is("pv1"))["nfs"].(object)["server"]; got != six {
		t.Errorf("spec.nfs.server is %q, want %q as it is", got, six)
	}
	return r
}

// spec.nfs cannot be changed, not even in how an address is written.
func TestAnAddressMayBeWrittenInAnyWay(t *testing.T) {
	for _, written := range []string{"FD00:10::5", "fd00:0010:0:0:0:0:0:5"} {
		r := dualStack(t)
		r.doc.PersistentVolumes.Servers = []string{written}
		r.manifests(strings.Replace(manifest("pv1", written), `"tier": "data"`, `"tier": "more"`, 1))
		r.expect("True Registered")
		r.did("apply pv1")
		if got := metadata(r.is("pv1"))["labels"].(object)["tier"]; got != "more" {
			t.Errorf("the label is %v", got)
		}
		r.expect("True Registered")
		r.did()
		r.manifests()
		r.expect("True Registered")
		r.did("delete pv1")
	}
}

func TestAnotherIPv6AddressIsAnotherSource(t *testing.T) {
	r := dualStack(t)
	r.api.bind("pv1", "default", "data")
	r.doc.PersistentVolumes.Servers = []string{"fd00:10::6"}
	r.manifests(manifest("pv1", "fd00:10::6"))
	r.expect("False SourceImmutable", "it points to [fd00:10::5]:/volume/nfs/pv1; expected [fd00:10::6]:/volume/nfs/pv1")
	r.did()
}

// kubelet accepts brackets too; a volume written with them has data on the same server.
func TestAVolumeOfOthersCountsHoweverItsServerIsWritten(t *testing.T) {
	for _, written := range []string{"[fd00:10::5]", "fd00:10:0::5", "::ffff:10.10.0.5"} {
		r := dualStack(t)
		r.foreign("theirs", written)
		r.api.bind("theirs", "default", "data")
		r.absent()
		r.expect("False InUse", "PersistentVolume theirs is Bound, by claim default/data")
		r.did()
	}
}
