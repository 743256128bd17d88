package openstack_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/openstack/openstacktest"
)

// TestServiceDown: a stopped or paused service does not answer; started again, the cloud is
// as it was.
func TestServiceDown(t *testing.T) {
	openstacktest.Require(t)
	cloud := openstacktest.Open(t, labtest.Open(t, lab.KindNspawn), openstack.Options{
		Settings: map[string]string{"keystone": "[token]\nexpiration = 600"},
	})
	tokensLast(t, cloud, 10*time.Minute)
	renewsItsToken(t, cloud)
	heat := cloud.Service("heat-api")
	list := func(ctx context.Context) error {
		return cloud.Admin.Call(ctx, "GET", openstack.HeatURL+"/stacks", nil, nil)
	}
	if err := list(t.Context()); err != nil {
		t.Fatal(err)
	}

	if err := heat.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := list(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("with heat-api stopped: %v; want a refused connection", err)
	}
	if err := heat.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := list(t.Context()); err != nil {
		t.Errorf("with heat-api started again: %v", err)
	}

	if err := heat.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := list(short); err == nil {
		t.Error("a paused heat-api answers")
	}
	if err := heat.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := list(t.Context()); err != nil {
		t.Errorf("with heat-api resumed: %v", err)
	}
}

// tokensLast: a setting of the test is the service's.
func tokensLast(t *testing.T, cloud *openstack.Cloud, want time.Duration) {
	t.Helper()
	before := time.Now()
	out, err := cloud.OpenStack(t.Context(), "token", "issue", "--format", "json")
	if err != nil {
		t.Fatal(err)
	}
	var token struct{ Expires string }
	if err := json.Unmarshal(out, &token); err != nil {
		t.Fatal(err)
	}
	expires, err := time.Parse("2006-01-02T15:04:05-0700", token.Expires)
	if err != nil {
		t.Fatal(err)
	}
	// Keystone has seconds only.
	if expires.Before(before.Add(want-time.Second)) || expires.After(time.Now().Add(want)) {
		t.Errorf("a token expires at %s; want %s after now", expires, want)
	}
}

// renewsItsToken: an account whose token Keystone has been told to forget goes on.
func renewsItsToken(t *testing.T, cloud *openstack.Cloud) {
	t.Helper()
	project, err := cloud.Admin.ProjectID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A password that changes, be it to the same, ends all tokens of its user.
	var self struct{ Users []struct{ ID string } }
	if err := cloud.Admin.Call(t.Context(), "GET", openstack.AuthURL+"/users?name=admin", nil, &self); err != nil {
		t.Fatal(err)
	}
	change := map[string]any{"user": map[string]any{"password": cloud.Admin.Password()}}
	if err := cloud.Admin.Call(t.Context(), "PATCH", openstack.AuthURL+"/users/"+self.Users[0].ID, change, nil); err != nil {
		t.Fatal(err)
	}
	// Keystone has seconds only: a token of the same second is one of those that have ended.
	now := time.Now()
	<-time.After(now.Truncate(time.Second).Add(time.Second).Sub(now))
	if err := cloud.Admin.Call(t.Context(), "GET", openstack.AuthURL+"/projects/"+project, nil, nil); err != nil {
		t.Error(err)
	}
}

// TestStartNamesTheServiceThatFails: the error has the service's name and its log.
func TestStartNamesTheServiceThatFails(t *testing.T) {
	openstacktest.Require(t)
	l := labtest.Open(t, lab.KindNspawn)
	cloud, err := openstack.Start(t.Context(), l, openstack.Options{
		Settings: map[string]string{"rabbitmq": "no.such.setting = 1"},
	})
	if err == nil {
		t.Fatal("it starts nevertheless", cloud.Close())
	}
	for _, part := range []string{"rabbitmq: it ended before it was ready", "no.such.setting"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}
