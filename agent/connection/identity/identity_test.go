package identity_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/connection/identity"
	"github.com/nodehitch/nodehitch/agent/state"
)

const (
	a = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7a"
	b = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7b"
	c = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7c"
)

// machine has these files and this answer of a metadata service ("" = 404).
func machine(t *testing.T, files map[string]string, metadata string) *identity.Machine {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if metadata == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(metadata))
	}))
	t.Cleanup(server.Close)
	return identity.At(root, server.URL)
}

func cloudInit(id string) string { return `{"v1": {"instance_id": "` + id + `"}, "ds": {}}` }

const (
	instanceData = "run/cloud-init/instance-data.json"
	productUUID  = "sys/class/dmi/id/product_uuid"
)

func TestTheFirstSourceThatHasAUUIDIsBelieved(t *testing.T) {
	cases := map[string]struct {
		files    map[string]string
		metadata string
		want     identity.Claim
	}{
		"cloud-init": {map[string]string{instanceData: cloudInit(a), productUUID: c}, `{"uuid":"` + b + `"}`,
			identity.Claim{ID: a, Source: identity.CloudInit}},
		"cloud-init without a UUID": {map[string]string{instanceData: cloudInit("i-0001"), productUUID: c}, `{"uuid":"` + b + `"}`,
			identity.Claim{ID: b, Source: identity.MetadataService}},
		"DMI in upper case": {map[string]string{productUUID: strings.ToUpper(c) + "\n"}, "",
			identity.Claim{ID: c, Source: identity.DMI}},
		"damaged instance data": {map[string]string{instanceData: "{", productUUID: c}, "not JSON",
			identity.Claim{ID: c, Source: identity.DMI}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := machine(t, test.files, test.metadata).Find(t.Context())
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

func TestAllFailuresAreInTheError(t *testing.T) {
	m := machine(t, map[string]string{instanceData: cloudInit("nocloud"), productUUID: "00000000-0000-0000-0000-000000000000"}, "")
	_, err := m.Find(t.Context())
	var not *identity.NotFound
	if !errors.As(err, &not) {
		t.Fatalf("got %v", err)
	}
	for i, want := range []string{`cloud-init: found "nocloud", which is no UUID`, "config drive: no disk is labelled config-2", "404", "placeholder"} {
		if !strings.Contains(not.Failures[i], want) {
			t.Errorf("failure %d is %q, want %q in it", i, not.Failures[i], want)
		}
	}
}

func TestMetadataServiceIsNotFollowedElsewhere(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"uuid":"` + a + `"}`)) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer server.Close()
	if claim, err := identity.At(t.TempDir(), server.URL).Find(t.Context()); err == nil {
		t.Errorf("believed a redirect: %+v", claim)
	}
}

func TestACopyOfTheDiskIsToldFromTheMachine(t *testing.T) {
	enrolled := state.Machine{NodeID: a, Source: identity.CloudInit, ProductUUID: c}
	cases := map[string]struct {
		files map[string]string
		found string // "" = the same machine
	}{
		"the same":          {map[string]string{instanceData: cloudInit(a), productUUID: c}, ""},
		"early in the boot": {map[string]string{productUUID: c}, ""},
		"firmware with another UUID, but cloud-init says the same": {map[string]string{instanceData: cloudInit(a), productUUID: b}, ""},
		"firmware that has the server's id by now":                 {map[string]string{productUUID: a}, ""},
		"nothing answers":              {nil, ""},
		"cloned, cloud-init says so":   {map[string]string{instanceData: cloudInit(b), productUUID: c}, b},
		"cloned, early in the boot":    {map[string]string{productUUID: b}, b},
		"cloned, no sensible instance": {map[string]string{instanceData: cloudInit("nocloud"), productUUID: b}, b},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			err := machine(t, test.files, "").Same(t.Context(), enrolled, "/var/lib/x")
			var other *identity.OtherMachine
			switch {
			case test.found == "" && err != nil:
				t.Errorf("got %v", err)
			case test.found != "" && (!errors.As(err, &other) || other.Found != test.found):
				t.Errorf("got %v, want another machine %s", err, test.found)
			}
		})
	}
	if diff := cmp.Diff("", machine(t, nil, "").ProductUUID()); diff != "" {
		t.Error(diff)
	}
}
