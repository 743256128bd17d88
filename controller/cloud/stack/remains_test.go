package stack

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
)

// attach has Cinder show the volume on these servers.
func attach(c *openstacktest.Cloud, servers ...string) {
	c.Put(openstacktest.Volume{ID: volumeA, SizeGiB: 1, AttachedTo: servers})
}

// Only an old server that Nova no longer has, and volumes that Cinder has on the new one alone,
// let the new one mount. What the cloud does not say is no proof.
func TestWhenAServerIsGoneForAnother(t *testing.T) {
	oldServer, newServer := serverA, serverB
	for name, c := range map[string]struct {
		change func(*openstacktest.Cloud)
		gone   bool
		says   string
		away   bool
	}{
		"deleted, and the volume is on the new one": {func(*openstacktest.Cloud) {}, true, "Nova does not have it, Cinder shows volume " + volumeA + " attached to " + newServer, false},
		"still there":                            {func(c *openstacktest.Cloud) { c.Put(openstacktest.Server{ID: oldServer, Name: "old"}) }, false, "Nova shows it as ACTIVE", false},
		"on a hypervisor that is down":           {func(c *openstacktest.Cloud) { c.Put(openstacktest.Server{ID: oldServer, Name: "old", Status: "ERROR"}) }, false, "Nova shows it as ERROR", false},
		"soft-deleted, which can be taken back":  {func(c *openstacktest.Cloud) { c.Put(openstacktest.Server{ID: oldServer, Status: "SOFT_DELETED"}) }, false, "Nova shows it as SOFT_DELETED", false},
		"deleted, and Nova still has its record": {func(c *openstacktest.Cloud) { c.Put(openstacktest.Server{ID: oldServer, Status: "DELETED"}) }, true, "Nova shows it as DELETED", false},
		"the volume is on both":                  {func(c *openstacktest.Cloud) { attach(c, newServer, oldServer) }, false, "attached to " + newServer + " and " + oldServer, false},
		"the volume is on the old one":           {func(c *openstacktest.Cloud) { attach(c, oldServer) }, false, "attached to " + oldServer, false},
		"the volume is on none":                  {func(c *openstacktest.Cloud) { attach(c) }, false, "attached to no server", false},
		"the volume is not there":                {func(c *openstacktest.Cloud) { c.Remove(volumeA) }, false, "Cinder shows volume " + volumeA + " not at all", false},
		"Nova does not have the new one either":  {func(c *openstacktest.Cloud) { c.Remove(newServer) }, false, "Nova does not have it", false},
		"the credential may not see the old one": {func(c *openstacktest.Cloud) { c.Put(openstacktest.Server{ID: oldServer, Project: "another"}) }, false, "", true},
		"Nova does not answer": {func(c *openstacktest.Cloud) {
			c.Fail(openstacktest.ServerByID, openstacktest.Fault{Status: http.StatusInternalServerError})
		}, false, "", true},
		"Cinder does not answer": {func(c *openstacktest.Cloud) {
			c.Fail(openstacktest.Volumes, openstacktest.Fault{Status: http.StatusInternalServerError})
		}, false, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			fake := openstacktest.Start(t)
			fake.Put(openstacktest.Server{ID: newServer, Name: "new"}, openstacktest.Volume{ID: volumeB, AttachedTo: []string{"another"}})
			attach(fake, newServer)
			c.change(fake)
			left, err := heat(t).Remains(t.Context(), Request{VIM: fake.VIM()}, []string{oldServer, newServer}, []string{volumeA})
			if (err != nil) != c.away {
				t.Fatalf("err %v", err)
			}
			if err != nil {
				return
			}
			if gone := left.Gone(oldServer, newServer, []string{volumeA}); gone != c.gone {
				t.Errorf("gone is %v, want %v: %+v", gone, c.gone, left)
			}
			if got := left.Text(oldServer, []string{volumeA}); !strings.Contains(got, c.says) {
				t.Errorf("it says %q, want %q", got, c.says)
			}
		})
	}
	if _, err := heat(t).Remains(t.Context(), Request{}, []string{oldServer}, nil); !errors.Is(err, ErrNotGiven) {
		t.Errorf("without a cloud: %v", err)
	}
}
