package openstack

import (
	"context"
	"fmt"
	"net/http"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// NewAccount makes a project and a user of the same name in it who is no administrator:
// a member, who may own stacks.
func (c *Cloud) NewAccount(ctx context.Context, name string) (*Account, error) {
	var project struct{ Project struct{ ID string } }
	err := c.Admin.Call(ctx, http.MethodPost, AuthURL+"/projects", map[string]any{"project": map[string]any{"name": name, "domain_id": "default"}}, &project)
	if err != nil {
		return nil, err
	}
	var user struct{ User struct{ ID string } }
	err = c.Admin.Call(ctx, http.MethodPost, AuthURL+"/users", map[string]any{"user": map[string]any{
		"name": name, "domain_id": "default", "password": password, "default_project_id": project.Project.ID,
	}}, &user)
	if err != nil {
		return nil, err
	}
	for _, role := range []string{"member", "heat_stack_owner"} {
		if err := c.grant(ctx, role, user.User.ID, project.Project.ID); err != nil {
			return nil, err
		}
	}
	return &Account{Name: name, Project: name, password: password, cloud: c}, nil
}

// OwnNetwork makes a network of the account's own, whose ports get the lab's addresses from
// first to last. What Neutron allows to a network's owner alone, such as allowed_address_pairs
// and the replacement of a server's port, works in it. Networks that are in use at one time
// must not share addresses; Network has those from 10.10.0.32 to 10.10.0.239.
func (a *Account) OwnNetwork(ctx context.Context, name, first, last string) error {
	var made struct{ Network struct{ ID string } }
	if err := a.Call(ctx, http.MethodPost, NeutronURL+"/networks", map[string]any{"network": map[string]any{"name": name}}, &made); err != nil {
		return err
	}
	return a.Call(ctx, http.MethodPost, NeutronURL+"/subnets", map[string]any{"subnet": map[string]any{
		"name": name, "network_id": made.Network.ID, "ip_version": 4, "cidr": lab.Subnet.String(), "gateway_ip": host, "enable_dhcp": false,
		"allocation_pools": []map[string]string{{"start": first, "end": last}},
	}}, nil)
}

func (c *Cloud) grant(ctx context.Context, role, user, project string) error {
	var list struct{ Roles []struct{ ID string } }
	if err := c.Admin.Call(ctx, http.MethodGet, AuthURL+"/roles?name="+role, nil, &list); err != nil {
		return err
	}
	if len(list.Roles) != 1 {
		return fmt.Errorf("role %s: Keystone knows %d of them", role, len(list.Roles))
	}
	return c.Admin.Call(ctx, http.MethodPut, fmt.Sprintf("%s/projects/%s/users/%s/roles/%s", AuthURL, project, user, list.Roles[0].ID), nil, nil)
}

// AccessRule allows one call: a service's type in the catalog, a method, and a path in
// which * stands for one part and ** for any number.
type AccessRule struct {
	Service string `json:"service"`
	Method  string `json:"method"`
	Path    string `json:"path"`
}

// ApplicationCredential makes one for the account in its project; without rules it may do
// all that the account may.
func (a *Account) ApplicationCredential(ctx context.Context, name string, rules ...AccessRule) (id, secret string, err error) {
	if _, err := a.authenticated(ctx); err != nil {
		return "", "", err
	}
	wanted := map[string]any{"name": name}
	if len(rules) > 0 {
		wanted["access_rules"] = rules
	}
	var made struct {
		Credential struct{ ID, Secret string } `json:"application_credential"`
	}
	url := fmt.Sprintf("%s/users/%s/application_credentials", AuthURL, a.userID)
	err = a.Call(ctx, http.MethodPost, url, map[string]any{"application_credential": wanted}, &made)
	return made.Credential.ID, made.Credential.Secret, err
}
