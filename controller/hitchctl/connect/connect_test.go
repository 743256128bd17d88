package connect_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/hitchctl/connect"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// home is a home directory with a context file, and an environment.
type home struct {
	dir string
	env map[string]string
}

func newHome(t *testing.T, context string, env map[string]string) home {
	t.Helper()
	h := home{dir: t.TempDir(), env: map[string]string{}}
	for name, value := range env {
		h.env[name] = strings.ReplaceAll(value, "~", h.dir)
	}
	h.env["HOME"] = h.dir
	if context != "" {
		h.write(t, ".config/nodehitch/hitchctl.yaml", context, 0o600)
	}
	return h
}

func (h home) write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func (h home) getenv(name string) string { return h.env[name] }

func TestWhereTheTargetComesFrom(t *testing.T) {
	const two = "contexts: {a: {server: 'https://a'}, b: {server: 'https://b', token: b.token}}\n"
	const several = "currentContext: b\n" + two
	const full = "server: https://file:1\nca: file-ca\npin: sha256:1\ntoken: file.token\n"
	tests := map[string]struct {
		context string
		env     map[string]string
		flags   connect.Flags
		want    connect.Target
	}{
		"the context file": {full, nil, connect.Flags{},
			connect.Target{Server: "https://file:1", CA: []byte("file-ca"), CAFrom: "~/.config/nodehitch/hitchctl.yaml", Pin: "sha256:1", Token: "file.token", TokenFrom: "~/.config/nodehitch/hitchctl.yaml"}},
		"the environment": {"", map[string]string{"NODEHITCH_SERVER": "https://env", "NODEHITCH_CA": "~/ca", "NODEHITCH_TOKEN": "env.token"}, connect.Flags{},
			connect.Target{Server: "https://env", CA: []byte("other-ca"), CAFrom: "NODEHITCH_CA", Token: "env.token", TokenFrom: "NODEHITCH_TOKEN"}},
		"the environment over the file": {full, map[string]string{"NODEHITCH_TOKEN": "env.token", "NODEHITCH_CA": "-----BEGIN X"}, connect.Flags{},
			connect.Target{Server: "https://file:1", CA: []byte("-----BEGIN X"), CAFrom: "NODEHITCH_CA", CAInstead: "~/.config/nodehitch/hitchctl.yaml", Token: "env.token", TokenFrom: "NODEHITCH_TOKEN", TokenInstead: "~/.config/nodehitch/hitchctl.yaml"}},
		"flags over both": {full, map[string]string{"NODEHITCH_SERVER": "https://env", "NODEHITCH_CA": "~/ca", "NODEHITCH_TOKEN": "env.token"}, connect.Flags{Server: []string{"https://flag"}, CAFile: "~/ca", TokenFile: "~/token"},
			connect.Target{Server: "https://flag", CA: []byte("other-ca"), CAFrom: "--ca", Token: "flag.token", TokenFrom: "~/token"}},
		"files beside the context": {"server: https://file\ncaFile: ca\ntokenFile: token\n", nil, connect.Flags{},
			connect.Target{Server: "https://file", CA: []byte("beside"), CAFrom: "~/.config/nodehitch/ca", Token: "beside.token", TokenFrom: "~/.config/nodehitch/token"}},
		"another context": {full, map[string]string{"NODEHITCH_CONFIG": "~/other.yaml"}, connect.Flags{},
			connect.Target{Server: "https://other", CA: []byte{}}},
		"the only one of the file": {"contexts: {a: {server: 'https://a'}}\n", nil, connect.Flags{},
			connect.Target{Server: "https://a", CA: []byte{}}},
		"the one in use": {several, nil, connect.Flags{},
			connect.Target{Server: "https://b", CA: []byte{}, Token: "b.token", TokenFrom: "~/.config/nodehitch/hitchctl.yaml"}},
		"the environment over the one in use": {several, map[string]string{"NODEHITCH_SERVER": "https://env"}, connect.Flags{},
			connect.Target{Server: "https://env", CA: []byte{}, Token: "b.token", TokenFrom: "~/.config/nodehitch/hitchctl.yaml"}},
		"one by its name over the environment": {several, map[string]string{"NODEHITCH_SERVER": "https://env", "NODEHITCH_TOKEN": "env.token"}, connect.Flags{Context: "a"},
			connect.Target{Server: "https://a", CA: []byte{}}},
		"that at the top of the file": {"server: https://top\n" + two, nil, connect.Flags{},
			connect.Target{Server: "https://top", CA: []byte{}}},
		"several in the file": {"server: [https://a, 'https://b:1']\n", nil, connect.Flags{},
			connect.Target{Server: "https://a,https://b:1", CA: []byte{}}},
		"several in the environment": {full, map[string]string{"NODEHITCH_SERVER": "https://a, https://b", "NODEHITCH_CA": "~/ca"}, connect.Flags{},
			connect.Target{Server: "https://a, https://b", CA: []byte("other-ca"), CAFrom: "NODEHITCH_CA", CAInstead: "~/.config/nodehitch/hitchctl.yaml", Token: "file.token", TokenFrom: "~/.config/nodehitch/hitchctl.yaml"}},
		"several by flags": {"", map[string]string{"NODEHITCH_SERVER": "https://env"}, connect.Flags{Server: []string{"https://a", "https://b"}},
			connect.Target{Server: "https://a,https://b"}},
		"a server, and several contexts, none in use": {two, nil, connect.Flags{Server: []string{"https://flag"}},
			connect.Target{Server: "https://flag"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, test.context, test.env)
			h.write(t, "ca", "other-ca", 0o644)
			h.write(t, "token", "flag.token\n", 0o600)
			h.write(t, "other.yaml", "server: https://other", 0o644)
			h.write(t, ".config/nodehitch/ca", "beside", 0o644)
			h.write(t, ".config/nodehitch/token", "beside.token", 0o400)
			for _, path := range []*string{&test.flags.CAFile, &test.flags.TokenFile} {
				*path = strings.ReplaceAll(*path, "~", h.dir)
			}
			for _, path := range []*string{&test.want.CAFrom, &test.want.CAInstead, &test.want.TokenFrom, &test.want.TokenInstead} {
				*path = strings.ReplaceAll(*path, "~", h.dir)
			}
			got, err := connect.Find(test.flags, h.getenv)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	tests := map[string]struct {
		context string
		env     map[string]string
		flags   connect.Flags
		want    string
	}{
		"a misspelled key": {"sever: https://a\n", nil, connect.Flags{}, "/sever: "},
		"two CAs":          {"ca: a\ncaFile: b\n", nil, connect.Flags{}, "both ca and caFile"},
		"two tokens":       {"token: a\ntokenFile: b\n", nil, connect.Flags{}, "both token and tokenFile"},
		"every fault of a list": {"", nil, connect.Flags{Server: []string{"http://a", "https://b", "", "https://B/", "unix:///s", "https://c/v1"}}, "--server:\n" +
			"  URL 1 of 6: found scheme \"http\"; only https is spoken, expected https://host:port\n" +
			"  URL 3 of 6: is empty; expected https://host:port\n" +
			"  URL 4 of 6: is URL 2 again; give each controller once\n" +
			"  URL 5 of 6: is a socket, of this machine's controller alone; give that alone, or https://host:port of each controller\n" +
			"  URL 6 of 6: found more than a host and a port, for c; expected https://host:port and nothing else"},
		"a list in the file":      {"server: [https://a, b]\n", nil, connect.Flags{}, "hitchctl.yaml: server:\n  URL 2 of 2: found scheme \"\""},
		"a list in a variable":    {"", map[string]string{"NODEHITCH_SERVER": "https://a,https://a"}, connect.Flags{}, "NODEHITCH_SERVER:\n  URL 2 of 2: is URL 1 again"},
		"a number":                {"server: 5\n", nil, connect.Flags{}, "/server: expected a URL or a list of URLs"},
		"no such context":         {"", map[string]string{"NODEHITCH_CONFIG": "/nonexistent"}, connect.Flags{}, "reading the context"},
		"no such name":            {"contexts: {prod: {server: 'https://a'}}\n", nil, connect.Flags{Context: "prd"}, `there is no context "prd"; did you mean prod?`},
		"a name, and no contexts": {"", nil, connect.Flags{Context: "prod"}, "has no contexts; `hitchctl create token NAME --write-context FILE`"},
		"none in use":             {"contexts: {a: {server: 'https://a'}, b: {server: 'https://b'}}\n", nil, connect.Flags{}, "has the contexts a, b and none is in use; `hitchctl config use-context NAME`"},
		"two of one name":         {"server: https://a\ncontexts: {default: {server: 'https://b'}}\n", nil, connect.Flags{}, "which are the same; keep one"},
		"no such CA":              {"", map[string]string{"NODEHITCH_CA": "/nonexistent"}, connect.Flags{}, "NODEHITCH_CA: "},
		"a token of two lines":    {"", map[string]string{"NODEHITCH_TOKEN": "a\nb"}, connect.Flags{}, "holds no API token"},
		"a token file for others": {"", nil, connect.Flags{TokenFile: "~/open"}, "mode 0640, so others can read it; run `chmod 600 "},
		"no token file":           {"", nil, connect.Flags{TokenFile: "/nonexistent"}, "reading the token"},
		"an empty token file":     {"", nil, connect.Flags{TokenFile: "~/empty"}, "holds no API token"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, test.context, test.env)
			h.write(t, "open", "a.b", 0o640)
			h.write(t, "empty", "\n", 0o600)
			test.flags.TokenFile = strings.ReplaceAll(test.flags.TokenFile, "~", h.dir)
			if _, err := connect.Find(test.flags, h.getenv); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	t.Run("a context with a token for others", func(t *testing.T) {
		h := newHome(t, "", nil)
		path := h.write(t, ".config/nodehitch/hitchctl.yaml", "server: https://a\ntoken: a.b\n", 0o644)
		if _, err := connect.Find(connect.Flags{}, h.getenv); err == nil || !strings.Contains(err.Error(), "`chmod 600 "+path+"`") {
			t.Errorf("got %v", err)
		}
	})
}

// Who can change such a file decides which controller gets the token.
func TestFilesOfAnotherUserAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for files of another user")
	}
	const context = ".config/nodehitch/hitchctl.yaml"
	for name, c := range map[string]struct {
		file string
		mode os.FileMode
		uid  int
		want string
	}{
		"a token":                            {"token", 0o600, 65534, "belongs to user 65534, expected user 0 or root"},
		"a context":                          {context, 0o600, 65534, "belongs to user 65534, expected user 0 or root"},
		"a context for the group to change":  {context, 0o660, 0, "mode 0660, so others can change which controller gets your token"},
		"a context for others to read":       {context, 0o644, 0, ""},
		"a named pipe of another user":       {"pipe", 0o600, 65534, "belongs to user 65534, expected user 0 or root"},
		"a context file for anyone to write": {context, 0o646, 0, "so others can change which controller"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, "server: https://a\n", nil)
			flags := connect.Flags{TokenFile: h.write(t, "token", "a.b\n", 0o600)}
			path := filepath.Join(h.dir, c.file)
			if c.file == "pipe" {
				flags.TokenFile = path
				if err := syscall.Mkfifo(path, 0o600); err != nil {
					t.Fatal(err)
				}
				go func() { _ = os.WriteFile(path, []byte("a.b\n"), 0o600) }() // as soon as it is opened
			}
			if err := errors.Join(os.Chmod(path, c.mode), os.Chown(path, c.uid, 0)); err != nil {
				t.Fatal(err)
			}
			_, err := connect.Find(flags, h.getenv)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestNoControllerIsSet(t *testing.T) {
	if _, err := os.Stat(client.DefaultSocket); err == nil {
		t.Skip("a controller runs on this machine")
	}
	_, err := connect.Find(connect.Flags{}, newHome(t, "", nil).getenv)
	if err == nil || !strings.Contains(err.Error(), "no controller is set; give --server") {
		t.Errorf("got %v", err)
	}
}

func TestAContextIsReadBack(t *testing.T) {
	ca := testca.Root(t, "root")
	want := connect.Target{Server: "https://controller:8443", CA: ca.PEM(), Pin: client.Pin(ca.Cert), Token: "id.secret"}
	h := newHome(t, "", nil)
	f, err := connect.Open(h.getenv)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := connect.Lock(t.Context(), f.Path()) // makes the directory
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	f.Contexts = map[string]connect.Context{"other": {}, "alice": {Server: want.Server, CA: string(want.CA), Pin: want.Pin, Token: want.Token}}
	if err := f.Use("alice"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	want.CAFrom, want.TokenFrom = f.Path(), f.Path()
	got, err := connect.Find(connect.Flags{}, h.getenv)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := got.Client(nil); err != nil {
		t.Error(err)
	}
}

// A context file may be a link, into a folder that a person keeps elsewhere.
func TestAContextIsWrittenThroughALink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "hitchctl.yaml")
	if err := os.Symlink("kept.yaml", link); err != nil {
		t.Fatal(err)
	}
	f := connect.NewFile(link)
	f.Set("", connect.Context{Server: connect.Servers("https://a")})
	if err := f.Save(); err == nil || !strings.Contains(err.Error(), "is a link to nothing") {
		t.Errorf("to nothing: %v", err)
	}
	kept := filepath.Join(filepath.Dir(link), "kept.yaml")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	to, err := os.Readlink(link)
	if text, readErr := os.ReadFile(kept); err != nil || to != "kept.yaml" || string(text) != "server: https://a\n" {
		t.Errorf("the link leads to %q (%v), and the file has %q (%v)", to, err, text, readErr)
	}
}

// One URL is written as it always was, several as a list.
func TestServersInAFile(t *testing.T) {
	for given, want := range map[string]string{"https://a": "server: https://a\n", "https://a, https://b": "server:\n- https://a\n- https://b\n"} {
		f := connect.NewFile(filepath.Join(t.TempDir(), "hitchctl.yaml"))
		f.Set("", connect.Context{Server: connect.Servers(given)})
		if err := f.Save(); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(f.Path()); err != nil || string(text) != want {
			t.Errorf("%s: %v\n%s", given, err, text)
		}
	}
}

// The controller's own pki/root.pem begins with a private key.
func TestTheRootIsTakenOutOfAFile(t *testing.T) {
	ca := testca.Root(t, "root")
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("k")})
	tests := map[string]struct {
		file    []byte
		withKey bool
		failure string
	}{
		"a certificate":             {ca.PEM(), false, ""},
		"a key, then a certificate": {append(slices.Clone(key), ca.PEM()...), true, ""},
		"joined to a key":           {append(bytes.TrimSpace(key), ca.PEM()...), true, ""},
		"a byte order mark":         {append([]byte("\ufeff"), ca.PEM()...), false, ""},
		"two that are joined":       {append(bytes.TrimSpace(ca.PEM()), ca.PEM()...), false, "expected the root alone"},
		"one that is cut off":       {append([]byte("-----BEGIN CERTIFICATE-----\nYQ==\n"), ca.PEM()...), false, "number 1 in line 1, that is damaged"},
		"a key alone":               {key, true, "found PRIVATE KEY, expected CERTIFICATE; `hitchctl create token"},
		"a text":                    {[]byte("hello"), false, "found no PEM block"},
		"two certificates":          {append(ca.PEM(), ca.PEM()...), false, "expected the root alone"},
	}
	for name, test := range tests {
		target := connect.Target{Server: "https://a", CA: test.file}
		_, err := target.Client(nil)
		if (err == nil) != (test.failure == "") || err != nil && !strings.Contains(err.Error(), test.failure) || target.HoldsPrivateKey() != test.withKey {
			t.Errorf("%s: %v, private key %v", name, err, target.HoldsPrivateKey())
		}
	}
}
