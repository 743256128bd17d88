package connect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/shared/strict"
)

// Context is the context file, ~/.config/nodehitch/hitchctl.yaml. Relative paths
// start at its directory.
type Context struct {
	// Server is https://host:port, or unix:///path.
	Server string `json:"server"`
	// CA is the controller's root certificate in PEM; CAFile names a file with it.
	CA     string `json:"ca,omitempty"`
	CAFile string `json:"caFile,omitempty"`
	// Pin is sha256:<hex> of the root; not compared where it is absent.
	Pin string `json:"pin,omitempty"`
	// Token is an API token; TokenFile names a file with it. The file that holds it
	// must be readable by its owner alone.
	Token     string `json:"token,omitempty"`
	TokenFile string `json:"tokenFile,omitempty"`
}

// Encode is the context as a file.
func (c Context) Encode() ([]byte, error) { return yaml.Marshal(c) }

// DefaultContext is the path of the context file if none is named; "" where
// the environment knows no home directory.
func DefaultContext(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "nodehitch", "hitchctl.yaml")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".config", "nodehitch", "hitchctl.yaml")
	}
	return ""
}

// fromFile reads the context file. Only the one that is named has to exist.
func fromFile(named string, getenv func(string) string) (Target, error) {
	path := cmp.Or(named, DefaultContext(getenv))
	if path == "" {
		return Target{}, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && named == "" {
		return Target{}, nil
	}
	if err != nil {
		return Target{}, fmt.Errorf("reading the context: %w", err)
	}
	var c Context
	if err := strict.Unmarshal(data, &c); err != nil {
		return Target{}, fmt.Errorf("context %s:\n%w", path, err)
	}
	return c.target(path)
}

func (c Context) target(path string) (Target, error) {
	t := Target{Server: c.Server, CA: []byte(c.CA), Pin: c.Pin, Token: c.Token}
	switch {
	case c.CA != "" && c.CAFile != "":
		return t, fmt.Errorf("context %s: has both ca and caFile; keep one", path)
	case c.Token != "" && c.TokenFile != "":
		return t, fmt.Errorf("context %s: has both token and tokenFile; keep one", path)
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(beside(path, c.CAFile))
		if err != nil {
			return t, fmt.Errorf("context %s: caFile: %w", path, err)
		}
		t.CA = pem
	}
	if c.TokenFile != "" {
		token, err := readToken(beside(path, c.TokenFile))
		t.Token = token
		return t, err
	}
	if c.Token == "" {
		return t, nil
	}
	if err := checkMode(path); err != nil {
		return t, err
	}
	if err := checkToken(c.Token); err != nil {
		return t, fmt.Errorf("context %s: token: %w", path, err)
	}
	return t, nil
}

func beside(context, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(context), path)
}

func readToken(path string) (string, error) {
	if err := checkMode(path); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if err := checkToken(token); err != nil {
		return "", fmt.Errorf("token file %s: %w", path, err)
	}
	return token, nil
}

var tokenGrammar = regexp.MustCompile(`^[!-~]{1,512}$`)

func checkToken(token string) error {
	if !tokenGrammar.MatchString(token) {
		return errors.New("holds no API token; expected one line such as `hitchctl token create` prints")
	}
	return nil
}

// checkMode refuses a file with a token that others can read. A pipe, as of
// <(pass show …), is readable by no other user.
func checkMode(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 {
		return fmt.Errorf("%s holds a token and has mode %04o, so others can read it; run chmod 600 %s, and make a new token if others may have read it", path, mode.Perm(), path)
	}
	return nil
}
