package openstacktest

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// login is Keystone: the one user by name or the one application credential.
func (c *Cloud) login(r *http.Request) (reply, http.Header) {
	var body struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct{ Name, Password string }
				}
				Credential struct{ ID, Secret string } `json:"application_credential"`
			}
			Scope struct{ Project struct{ ID, Name string } }
		}
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return refused(http.StatusBadRequest), nil
	}
	i, scope := body.Auth.Identity, body.Auth.Scope.Project
	user := i.Password.User.Name == User && i.Password.User.Password == Password && (scope.Name == Project || scope.ID == ProjectID)
	app := i.Credential.ID == AppID && i.Credential.Secret == AppSecret
	if !user && !app {
		return refused(http.StatusUnauthorized), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issued++
	token := fmt.Sprintf("token-%d", c.issued)
	c.tokens[token] = true
	return reply{http.StatusCreated, object{"token": c.token(i.Methods)}}, http.Header{"X-Subject-Token": {token}}
}

func (c *Cloud) token(methods []string) object {
	domain := object{"id": "default", "name": "Default"}
	now := time.Now().UTC()
	const layout = "2006-01-02T15:04:05.000000Z"
	var catalog []object
	for _, s := range [][3]string{
		{"network", "neutron", "/network"}, {"volumev2", "cinderv2", "/volume/v2/" + ProjectID}, {"volumev3", "cinder", "/volume/v3/" + ProjectID}, {"identity", "keystone", "/identity"},
		{"orchestration", "heat", "/orchestration/v1/" + ProjectID}, {"compute", "nova", "/compute/v2.1"},
	} {
		var endpoints []object
		for _, kind := range []string{"admin", "public", "internal"} {
			endpoints = append(endpoints, object{"id": kind + s[1], "interface": kind, "region_id": Region, "region": Region, "url": c.URL + s[2]})
		}
		catalog = append(catalog, object{"endpoints": endpoints, "id": s[1], "type": s[0], "name": s[1]})
	}
	return object{
		"methods": methods, "is_domain": false, "audit_ids": []string{"nxDtv2uAQnaX1_4wfy-Nnw"},
		"user":      object{"domain": domain, "id": "357ec0eafb1f4e4bae9c341e53aac4e5", "name": User, "password_expires_at": nil},
		"issued_at": now.Format(layout), "expires_at": now.Add(time.Hour).Format(layout),
		"project": object{"domain": domain, "id": ProjectID, "name": Project},
		"roles":   []object{{"id": "95e88375320a4b33adfd5d1584c1e0e0", "name": "reader"}},
		"catalog": catalog,
	}
}

// CloudsFile is the path of a clouds.yaml whose entry fake is this cloud, with the
// password in secure.yaml.
func (c *Cloud) CloudsFile(t testing.TB) string {
	dir := t.TempDir()
	open := fmt.Sprintf("clouds:\n  fake:\n    auth: {auth_url: %s/identity/v3, username: %s, project_name: %s, user_domain_name: Default, project_domain_name: Default}\n    region_name: %s\n",
		c.URL, User, Project, Region)
	if certificate := c.CACert(); certificate != "" {
		open += "    cacert: " + write(t, dir, "ca.pem", certificate) + "\n"
	}
	write(t, dir, "secure.yaml", fmt.Sprintf("clouds:\n  fake:\n    auth: {password: %s}\n", Password))
	return write(t, dir, "clouds.yaml", open)
}

func write(t testing.TB, dir, name, text string) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// CACert is the PEM certificate that makes the cloud's own trusted, "" without TLS.
func (c *Cloud) CACert() string {
	if c.server.Certificate() == nil {
		return ""
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw}))
}

// VIM is a vimConnectionInfo with the user's password for this cloud.
func (c *Cloud) VIM() json.RawMessage {
	text, err := json.Marshal([]object{{
		"id": "vim", "vimId": "8343f55d-5b1d-4b70-b8c8-2a1a2a2b3c4d", "vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3",
		"interfaceInfo": object{"endpoint": c.URL + "/identity/v3"},
		"accessInfo": object{"username": User, "password": Password, "region": Region, "project": Project,
			"projectDomain": "Default", "userDomain": "Default"},
	}})
	if err != nil {
		panic(err)
	}
	return text
}
