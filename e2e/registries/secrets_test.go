package registries

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// secrets searches for a password that the registry accepts and one that it refuses, both
// as they are and as a login has them.
func (c *cluster) secrets(r *results.Case) {
	const taken, refused = "c1e55e8f-taken", "c1e55e8f-refused"
	c.serve("443", taken, time.Now().Add(time.Hour))
	c.refused(api.ReasonUnauthorized, secure(secureServer, refused))
	c.connected(secure(secureServer, taken))
	c.workers[0].pushNew(secureServer)
	var forms []string
	for _, password := range []string{taken, refused} {
		forms = append(forms, password, base64.StdEncoding.EncodeToString([]byte("user01:"+password)))
	}
	for _, m := range c.workers {
		want := []string{dockerLogins, sitetest.LastKnownGood, kubeletLogins}
		slices.Sort(want)
		if got := m.filesWith(forms[:2]); !slices.Equal(got, want) {
			r.Unauthorised(1)
			c.T.Errorf("%s: the password is in %q, want %q", m.Name(), got, want)
		}
		if got := m.filesWith(forms[2:]); len(got) > 0 {
			r.Unauthorised(1)
			c.T.Errorf("%s: the refused password is in %q", m.Name(), got)
		}
		for _, path := range want {
			if mode := m.Run("stat", "--format=%a %U", path); mode != "600 root" {
				c.T.Errorf("%s: %s is %s", m.Name(), path, mode)
			}
		}
		c.silent(r, m.Name()+"'s journal", []byte(m.Run("journalctl", "--no-pager", "--output=export")), forms)
		for _, command := range [][]string{
			{"get", "node", m.ServerID(), "-o", "json"}, {"describe", "node", m.ServerID()}, {"get", "instance", c.ID, "-o", "json"},
		} {
			out, err := c.Hitchctl(c.T.Context(), command...)
			if err != nil {
				c.T.Fatal(err)
			}
			c.silent(r, strings.Join(command, " "), out, forms)
		}
	}
	store := false
	err := filepath.WalkDir(filepath.Join(c.Lab.Dir(), "controller"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		store = store || d.Name() == "store.db" && bytes.Contains(content, []byte(c.ID))
		// A record has bytes in base64, in which the password may begin anywhere.
		if len(content) > 0 {
			c.silent(r, path, content, slices.Concat(forms, inBase64(taken), inBase64(refused)))
		}
		return err
	})
	if err != nil {
		c.T.Fatal(err)
	}
	if !store {
		c.T.Errorf("no store that knows the instance was among the controller's files")
	}
}

// inBase64 is what base64 makes of a text behind none, one and two bytes, without the
// groups that others have a part in.
func inBase64(text string) (all []string) {
	for _, from := range []int{0, 2, 1} {
		whole := text[from : from+(len(text)-from)/3*3]
		all = append(all, base64.StdEncoding.EncodeToString([]byte(whole)))
	}
	return all
}

// silent asserts that a text holds none of the forms of a password.
func (c *cluster) silent(r *results.Case, where string, text []byte, forms []string) {
	c.T.Helper()
	if len(text) == 0 {
		c.T.Errorf("%s is empty: a search shows nothing", where)
	}
	r.Unauthorised(0) // it was searched
	for _, form := range forms {
		if bytes.Contains(text, []byte(form)) {
			r.Unauthorised(1)
			c.T.Errorf("%s holds the password as %q", where, form)
		}
	}
}

// filesWith are the machine's files that hold one of the texts.
func (m *machine) filesWith(texts []string) []string {
	m.W.T.Helper()
	argv := []string{"grep", "--recursive", "--files-with-matches", "--text", "--fixed-strings", "--devices=skip",
		"--exclude-dir=journal"} // which is read as a whole
	for _, text := range texts {
		argv = append(argv, "-e", text)
	}
	out, _ := m.Try(append(argv, "/etc", "/root", "/run", "/home", "/tmp", "/var/tmp", "/var/log",
		"/var/lib/nodehitch", "/var/lib/kubelet", "/var/lib/cloud", "/var/lib/systemd")...)
	found := strings.Fields(out)
	slices.Sort(found)
	return found
}
