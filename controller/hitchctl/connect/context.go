package connect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/nodehitch/nodehitch/shared/durable"
)

// Context is a controller and how to be admitted there. Relative paths start at the
// directory of its file.
type Context struct {
	// Server is https://host:port, or unix:///path, or https://host:port of each controller.
	Server Servers `json:"server,omitempty"`
	// CA is the controller's root certificate in PEM; CAFile names a file with it.
	CA     string `json:"ca,omitempty"`
	CAFile string `json:"caFile,omitempty"`
	// Pin is sha256:<hex> of the root; not compared where it is absent.
	Pin string `json:"pin,omitempty"`
	// Token is an API token; TokenFile names a file with it. The file that contains it
	// must be readable by its owner alone.
	Token     string `json:"token,omitempty"`
	TokenFile string `json:"tokenFile,omitempty"`
}

func (c Context) redacted(instead string) Context {
	if c.Token != "" {
		c.Token = instead
	}
	return c
}

// target is what the context says, for a file of that path and mode.
func (c Context) target(path string, mode fs.FileMode) (Target, error) {
	t := Target{Server: c.Server, CA: []byte(c.CA), Pin: c.Pin, Token: c.Token}
	switch {
	case c.CA != "" && c.CAFile != "":
		return t, fmt.Errorf("context %s: has both ca and caFile; keep one", path)
	case c.Token != "" && c.TokenFile != "":
		return t, fmt.Errorf("context %s: has both token and tokenFile; keep one", path)
	}
	if err := c.Server.Check("context " + path + ": server"); err != nil {
		return t, err
	}
	if c.CA != "" {
		t.CAFrom = path
	}
	if c.CAFile != "" {
		t.CAFrom = beside(path, c.CAFile)
		pem, err := os.ReadFile(t.CAFrom)
		if err != nil {
			return t, fmt.Errorf("context %s: caFile: %w", path, err)
		}
		t.CA = pem
	}
	if c.TokenFile != "" {
		t.TokenFrom = beside(path, c.TokenFile)
		token, err := readToken(t.TokenFrom)
		t.Token = token
		return t, err
	}
	if c.Token == "" {
		return t, nil
	}
	t.TokenFrom = path
	if err := checkMode(path, mode, c.Token); err != nil {
		return t, err
	}
	if err := checkToken(c.Token); err != nil {
		return t, fmt.Errorf("context %s: token: %w", path, err)
	}
	return t, nil
}

// Changed is the context with what flags name in the place of what it has. Paths become
// absolute.
func (c Context) Changed(flags Flags) (Context, error) {
	given := Join(flags.Server)
	if given == "" && flags.CAFile == "" && flags.TokenFile == "" {
		return c, errors.New("nothing to set; give --server, --ca or --token-file")
	}
	if err := given.Check("--server"); err != nil {
		return c, err
	}
	if c.Server = cmp.Or(given, c.Server); c.Server == "" {
		return c, errors.New("a new context needs --server")
	}
	var err error
	if flags.CAFile != "" {
		c.CA, c.Pin = "", ""
		if c.CAFile, err = filepath.Abs(flags.CAFile); err != nil {
			return c, err
		}
	}
	if flags.TokenFile != "" {
		c.Token = ""
		c.TokenFile, err = filepath.Abs(flags.TokenFile)
	}
	return c, err
}

func beside(context, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(context), path)
}

func readToken(path string) (string, error) {
	data, mode, err := readOwn(path)
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if err := checkMode(path, mode, token); err != nil {
		return "", err
	}
	if err := checkToken(token); err != nil {
		return "", fmt.Errorf("token file %s: %w", path, err)
	}
	return token, nil
}

var tokenGrammar = regexp.MustCompile(`^[!-~]{1,512}$`)

func checkToken(token string) error {
	if !tokenGrammar.MatchString(token) {
		return errors.New("holds no API token; expected one line such as `hitchctl create token` prints")
	}
	return nil
}

// checkMode refuses a file with a token that others can read. A pipe, as of
// <(pass show …), is readable by no other user.
func checkMode(path string, mode fs.FileMode, token string) error {
	if !mode.IsRegular() || mode.Perm()&0o077 == 0 {
		return nil
	}
	id, _, found := strings.Cut(token, ".")
	if !found || checkToken(id) != nil {
		id = "ID"
	}
	return fmt.Errorf("%s holds a token and has mode %04o, so others can read it; run `chmod 600 %[1]s`; if others may have read it, then as root on the "+
		"controller's machine: `hitchctl delete token %[3]s` revokes the token, and `hitchctl create token NAME --write-context FILE` writes a file "+
		"with a new one, which takes the place of %[1]s", path, mode.Perm(), id)
}

// readOwn reads a file that says which controller is trusted, or with what: one of another user
// would let that user decide it. Standard input may be a pipe that another user's shell made.
func readOwn(path string) ([]byte, fs.FileMode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if stdin, err := os.Stdin.Stat(); err != nil || !os.SameFile(stdin, info) {
		if uid := durable.Owner(info); uid != os.Geteuid() && uid != 0 {
			return nil, 0, fmt.Errorf("%s belongs to user %d, expected user %d or root: who owns it decides which controller gets your token; check what is in it, then take it over or make a copy of your own", path, uid, os.Geteuid())
		}
		if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o022 != 0 {
			return nil, 0, fmt.Errorf("%s has mode %04o, so others can change which controller gets your token: check what is in it, then run `chmod 600 %s`", path, mode.Perm(), path)
		}
	}
	data, err := io.ReadAll(f)
	return data, info.Mode(), err
}
