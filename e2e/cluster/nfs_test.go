package cluster

import (
	"github.com/nodehitch/nodehitch/e2e/results"
)

// saved is what the cases keep on the first volume's directory.
const saved = "/volume/nfs/pv1/saved"

// saves writes a file over NFS, like a pod with the volume mounted. The client is the
// storage server's own kernel, because this host's may have none.
func (c *cluster) saves(content string) {
	c.T.Helper()
	m := c.storage()
	m.Run("mkdir", "-p", "/mnt/pv1")
	m.Run("mount", "-t", "nfs4", m.Address().String()+":/volume/nfs/pv1", "/mnt/pv1")
	m.Run("sh", "-euc", `printf %s "$1" >/mnt/pv1/saved; sync /mnt/pv1/saved`, "sh", content)
	m.Run("umount", "/mnt/pv1")
	m.Run("sync")
}

// kept counts what is lost of it.
func (c *cluster) kept(r *results.Case, content string) {
	c.T.Helper()
	got, err := c.storage().Try("cat", saved)
	if got == content {
		r.Lost(0)
		return
	}
	c.T.Logf("the file holds %q, %v", got, err)
	r.Lost(int64(len(content)))
}

// blank asserts that the volume is served and holds none of it.
func (c *cluster) blank() {
	c.T.Helper()
	if out, err := c.storage().Try("cat", saved); err == nil {
		c.T.Errorf("a new volume holds %q", out)
	}
}
