package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
	"github.com/nodehitch/nodehitch/shared/fault"
)

const token = "0b1a5c2e-0000-4000-8000-000000000001.c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"

func file(t *testing.T, mode os.FileMode, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// owned gives a file to a user. Only root can, and only root's files are good.
func owned(t *testing.T, uid int, path string) string {
	t.Helper()
	if err := os.Chown(path, uid, uid); err != nil {
		t.Fatal(err)
	}
	return path
}

func good(t *testing.T) config.Config {
	root := testca.Root(t, "root")
	return config.Config{
		ControllerURLs:  []string{"https://controller.example:8443", "https://[2001:db8::1]"},
		RootCertificate: string(root.PEM()), Pin: client.Pin(root.Cert), JoinToken: token,
		StateDirectory: "/var/lib/nodehitch/agent", Kubeconfig: "/etc/rancher/k3s/k3s.yaml", Upgrade: config.UpgradeNone, Log: config.Log{Level: "info"},
		HeatSignalURL:   "http://heat.example:8000/v1/waitcondition/arn%3Aopenstack%3Aheat%3A%3Ap%3Astacks%2Fs?SignatureMethod=HmacSHA256&Signature=a%2Fb%3D",
		HeatSignalToken: "gAAAAABrApFlS_9LIQkrZT8Ln3DyqFnQ5JtfDZtXsHg7Gkj-MDgeE=",
	}
}

func text(t *testing.T, c config.Config) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDefaultsAreFilledIn(t *testing.T) {
	want := good(t)
	given := want
	want.Upgrade = config.UpgradeController
	given.StateDirectory, given.Upgrade, given.Log.Level = "", "", ""
	got, err := config.Load(file(t, 0o600, text(t, given)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryFaultAtOnceAndNoSecret(t *testing.T) {
	c := good(t)
	c.ControllerURLs = []string{"http://controller.example", "https://c.example/v1", "https://c.example"}
	c.Pin = "sha256:" + strings.Repeat("0", 64)
	c.JoinToken = "hunter2"
	c.StateDirectory = "agent"
	c.Kubeconfig = "/etc/kubernetes/../admin.conf"
	c.HeatSignalURL = "https://hunter2@heat.example/v1/waitcondition"
	c.HeatSignalToken = "hunter2\n"
	c.Upgrade = "always"
	c.Log.Level = "loud"
	path := file(t, 0o600, strings.Replace(text(t, c), `"rootCertificate":`, `"logg":"hunter2","rootCertificate":`, 1))
	_, err := config.Load(path)
	var faults fault.List
	if !errors.As(err, &faults) {
		t.Fatalf("got %v", err)
	}
	var at []string
	for _, f := range faults {
		at = append(at, strings.TrimPrefix(f.Pointer, path+":"))
	}
	if diff := cmp.Diff([]string{"/logg", "/controllerUrls/0", "/controllerUrls/1", "/pin", "/joinToken", "/stateDirectory", "/kubeconfig", "/heatSignalUrl", "/heatSignalToken", "/upgrade", "/log/level"}, at); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error repeats a secret: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	all := text(t, good(t))
	alone := good(t)
	alone.HeatSignalURL = ""
	for name, c := range map[string]struct{ path, want string }{
		"a token for no URL":  {file(t, 0o600, text(t, alone)), "/heatSignalToken"},
		"readable to others":  {file(t, 0o640, all), "chmod 0600"},
		"of another user":     {owned(t, 65534, file(t, 0o600, all)), "does not belong to root"},
		"absent":              {filepath.Join(t.TempDir(), "agent.yaml"), "no such file"},
		"empty":               {file(t, 0o600, ""), "/rootCertificate"},
		"an unknown name":     {file(t, 0o600, strings.Replace(all, `"pin"`, `"pinn"`, 1)), "/pinn: is not known here; did you mean pin?"},
		"of a wrong type":     {file(t, 0o600, "controllerUrls: a\nlog: loud\n"), "/controllerUrls: found a string, expected a list"},
		"no YAML":             {file(t, 0o600, "pin: ["), "agent.yaml: is not YAML"},
		"another level":       {file(t, 0o600, strings.Replace(all, `"log":{"level":"info"}`, `"log":{"level":"loud"}`, 1)), `agent.yaml:/log/level: is "loud"; expected debug, info, warn or error`},
		"a server's own cert": {file(t, 0o600, text(t, leaf(t))), "is no CA"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := config.Load(c.path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func leaf(t *testing.T) config.Config {
	c := good(t)
	c.RootCertificate = string(testca.Encode(testca.Root(t, "root").Server(t, time.Now().Add(time.Hour), "c").Certificate[0]))
	return c
}

func TestSignalURLs(t *testing.T) {
	for url, ok := range map[string]bool{
		"http://10.0.0.1:8000/v1/waitcondition/arn%3Aopenstack?Signature=a%3D": true,
		"https://[2001:db8::1]/v1/waitcondition/x?Timestamp=2026-01-01":        true,
		"ftp://heat.example/":                       false,
		"/v1/waitcondition":                         false,
		"http://":                                   false,
		"http://u:p@heat.example/":                  false,
		"http://heat.example/#here":                 false,
		"http://heat.example/a b":                   false,
		"http://heat.example/\nX-Header: 1":         false,
		"http://heat.example/grün":                  false,
		"__NODEHITCH_HEAT_SIGNAL_URL__":             false,
		"http://h/" + strings.Repeat("a", 8<<10):    false,
		"http://heat.example/%zz":                   false,
		"http://heat.example:port/v1/waitcondition": false,
	} {
		c := good(t)
		c.HeatSignalURL, c.HeatSignalToken = url, ""
		_, err := config.Load(file(t, 0o600, text(t, c)))
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), url) {
			t.Errorf("%q: got %v, want ok: %t, and the URL in no error", url, err, ok)
		}
	}
}
