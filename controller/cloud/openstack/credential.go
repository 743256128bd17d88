package openstack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// defaultDomain is the domain of users and projects of whom none is given, as in
// OpenStack's own clients. It is an id, which every cloud has.
const defaultDomain = "default"

// credential is how to log in to one project of one cloud. It contains secrets.
type credential struct {
	AuthURL string

	AppID, AppName, AppSecret string

	UserID, User, Password             string
	UserDomainID, UserDomain           string
	ProjectID, Project                 string
	ProjectDomainID, ProjectDomainName string

	// Region and Interface choose among the endpoints of a service; "" is any region
	// and the public interface.
	Region, Interface string

	// CA are PEM certificates that are trusted beside the system's.
	CA string
	// ClientCertificate and ClientKey, in PEM, authenticate the controller to the cloud.
	ClientCertificate, ClientKey string
	// Unverified believes any certificate.
	Unverified bool
}

// fingerprint tells credentials apart without containing any. key makes it worthless to
// everyone who sees it.
func (c credential) fingerprint(key []byte) [sha256.Size]byte {
	text, err := json.Marshal(c)
	if err != nil {
		panic("openstack: a struct of texts has no JSON: " + err.Error())
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return [sha256.Size]byte(mac.Sum(nil))
}

// auth is the credential as the client library wants it.
func (c credential) auth() *gophercloud.AuthOptions {
	o := &gophercloud.AuthOptions{IdentityEndpoint: c.AuthURL, AllowReauth: true}
	user := func() {
		o.UserID, o.Username, o.DomainID, o.DomainName = c.UserID, c.User, c.UserDomainID, c.UserDomain
	}
	switch {
	case c.AppID != "":
		o.ApplicationCredentialID, o.ApplicationCredentialSecret = c.AppID, c.AppSecret
	case c.AppName != "":
		o.ApplicationCredentialName, o.ApplicationCredentialSecret = c.AppName, c.AppSecret
		user()
	default:
		user()
		o.Password = c.Password
		o.Scope = &gophercloud.AuthScope{ProjectID: c.ProjectID, ProjectName: c.Project}
		if c.ProjectID == "" {
			o.Scope.DomainID, o.Scope.DomainName = c.ProjectDomainID, c.ProjectDomainName
		}
	}
	return o
}

// places says where each part of a credential is in the document that it comes from.
type places struct {
	authURL, appID, appName, appSecret, user, password, project, iface fault.At
}

// complete fills in what may be left out, and lists what is missing or wrong. No
// message repeats a value but that of authURL and interface.
func (c *credential) complete(at places) fault.List {
	var faults fault.List
	want := func(value string, at fault.At, expected string) {
		if value == "" {
			faults = append(faults, at.Fault("is missing; expected "+expected))
		}
	}
	if c.AuthURL == "" {
		want("", at.authURL, "Keystone's URL, such as https://cloud.example:5000/v3")
	} else if why := badAuthURL(c.AuthURL); why != "" {
		faults = append(faults, at.authURL.Fault(why))
	}
	switch {
	case c.AppID != "":
		want(c.AppSecret, at.appSecret, "the application credential's secret")
	case c.AppName != "":
		want(c.AppSecret, at.appSecret, "the application credential's secret")
		want(c.UserID+c.User, at.user, "the user whose application credential it is; its id alone needs no user")
	case c.AppSecret != "":
		want("", at.appID, "the application credential's id")
	default:
		want(c.UserID+c.User, at.user, "a user name, or an application credential")
		want(c.Password, at.password, "the user's password")
		want(c.ProjectID+c.Project, at.project, "the project that has the stacks")
	}
	switch c.Interface {
	case "", "public", "internal", "admin":
	default:
		faults = append(faults, at.iface.Fault("expected public, internal or admin"))
	}
	if c.UserID == "" && c.User != "" && c.UserDomain == "" && c.UserDomainID == "" {
		c.UserDomainID = defaultDomain
	}
	if c.ProjectID == "" && c.Project != "" && c.ProjectDomainName == "" && c.ProjectDomainID == "" {
		c.ProjectDomainID = defaultDomain
	}
	if c.UserID != "" { // the two together are refused
		c.User, c.UserDomain, c.UserDomainID = "", "", ""
	}
	return faults
}

// badAuthURL says what is wrong with Keystone's URL.
func badAuthURL(text string) string {
	const expected = "expected Keystone's URL, such as https://cloud.example:5000/v3"
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return "is no URL of a server; " + expected
	case u.User != nil:
		return "holds a user name; " + expected + ", and the user in separate fields"
	case u.RawQuery != "" || u.Fragment != "":
		return "has more than a path; " + expected
	case strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/v2.0"):
		return "is version 2 of Keystone, which is gone; " + expected
	}
	return ""
}
