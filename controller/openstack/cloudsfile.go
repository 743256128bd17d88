package openstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// entry is what is read of one entry of a clouds.yaml. What else an entry may have is
// for other programs.
type entry struct {
	Auth struct {
		AuthURL           string `json:"auth_url"`
		AppID             string `json:"application_credential_id"`
		AppName           string `json:"application_credential_name"`
		AppSecret         string `json:"application_credential_secret"`
		UserID            string `json:"user_id"`
		Username          string `json:"username"`
		Password          string `json:"password"`
		UserDomainID      string `json:"user_domain_id"`
		UserDomainName    string `json:"user_domain_name"`
		ProjectID         string `json:"project_id"`
		ProjectName       string `json:"project_name"`
		ProjectDomainID   string `json:"project_domain_id"`
		ProjectDomainName string `json:"project_domain_name"`
		DomainID          string `json:"domain_id"`
		DomainName        string `json:"domain_name"`
		DefaultDomain     string `json:"default_domain"`
	} `json:"auth"`
	AuthType     string `json:"auth_type"`
	RegionName   string `json:"region_name"`
	Interface    string `json:"interface"`
	EndpointType string `json:"endpoint_type"`
	Verify       *bool  `json:"verify"`
	CACert       string `json:"cacert"`
	Cert         string `json:"cert"`
	Key          string `json:"key"`
}

// unsupported are members of an entry that would change which cloud is reached, or as
// whom, and that are refused because of that.
var unsupported = map[string]string{
	"/profile":           "is not supported; write what the profile has into this entry",
	"/cloud":             "is not supported; write what the profile has into this entry",
	"/auth/token":        "is not supported, for a token expires; give an application credential, or user and password",
	"/auth/trust_id":     "is not supported; give an application credential",
	"/auth/system_scope": "is not supported; the credential has to be of the project that has the stacks",
	"/auth/passcode":     "is not supported; give an application credential",
}

// readEntry is the credential of an entry of the clouds file, with what secure.yaml
// beside it adds. The library's own reader is not used: environment variables of the
// process would change what it reads, its CA replaces the system's, and an entry
// without auth crashes it.
func readEntry(file, name string) (credential, error) {
	open, err := readDocument(file)
	if err != nil {
		return credential{}, err
	}
	merged, found := open[name]
	if !found {
		return credential{}, fmt.Errorf("%s has no cloud %q; it has %s", file, name, listed(open))
	}
	secureFile := filepath.Join(filepath.Dir(file), "secure.yaml")
	secret, err := readDocument(secureFile)
	switch {
	case err == nil:
		merged = overlay(merged, secret[name])
	case !errors.Is(err, fs.ErrNotExist):
		return credential{}, err
	}
	c, faults := fromEntry(merged)
	if len(faults) > 0 {
		return credential{}, fmt.Errorf("cloud %q of %s is not valid:\n%w", name, file, faults)
	}
	return c, c.readFiles(merged)
}

// readDocument is the entries of a clouds.yaml or secure.yaml. Its errors repeat
// nothing of the content.
func readDocument(file string) (map[string]any, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials of clouds: %w", err)
	}
	var document struct {
		Clouds map[string]any `json:"clouds"`
	}
	if yaml.Unmarshal(data, &document) != nil {
		return nil, fmt.Errorf("%s is no clouds.yaml; expected YAML with an object clouds that has one object for each cloud", file)
	}
	return document.Clouds, nil
}

func listed(clouds map[string]any) string {
	if len(clouds) == 0 {
		return "none; expected an object clouds that has one object for each cloud"
	}
	return strings.Join(slices.Sorted(maps.Keys(clouds)), ", ")
}

// overlay is the object below with what stands above it put over it, at any depth.
func overlay(below, above any) any {
	a, ok := above.(map[string]any)
	b, both := below.(map[string]any)
	switch {
	case above == nil:
		return below
	case !ok || !both:
		return above
	}
	out := maps.Clone(b)
	for k, v := range a {
		out[k] = overlay(b[k], v)
	}
	return out
}

// fromEntry is the credential that an entry holds; the files that it names are not
// read yet.
func fromEntry(value any) (credential, fault.List) {
	text, err := json.Marshal(value)
	if err != nil {
		return credential{}, fault.List{fault.Root.Fault("holds what JSON has no word for")}
	}
	var e entry
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(text, &e); errors.As(err, &wrong) {
		return credential{}, fault.List{{Pointer: "/" + strings.ReplaceAll(wrong.Field, ".", "/"),
			Message: fmt.Sprintf("is a %s; expected %s (put a text that looks like a number into quotes)", wrong.Value, kind(wrong.Type.Kind().String()))}}
	} else if err != nil {
		return credential{}, fault.List{fault.Root.Fault("expected an object")}
	}
	faults := e.faults(value)
	a := e.Auth
	fallback := first(a.DomainID, a.DefaultDomain)
	c := credential{
		AuthURL: a.AuthURL, AppID: a.AppID, AppName: a.AppName, AppSecret: a.AppSecret,
		UserID: a.UserID, User: a.Username, Password: a.Password,
		UserDomainID: a.UserDomainID, UserDomain: a.UserDomainName,
		ProjectID: a.ProjectID, Project: a.ProjectName,
		ProjectDomainID: a.ProjectDomainID, ProjectDomainName: a.ProjectDomainName,
		Region: e.RegionName, Interface: strings.TrimSuffix(first(e.EndpointType, e.Interface), "URL"),
		Unverified: e.Verify != nil && !*e.Verify,
	}
	oneDomain(&c.UserDomainID, &c.UserDomain, fallback, a.DomainName)
	oneDomain(&c.ProjectDomainID, &c.ProjectDomainName, fallback, a.DomainName)
	auth := fault.Root.Key("auth")
	return c, append(faults, c.complete(places{
		authURL: auth.Key("auth_url"), appID: auth.Key("application_credential_id"), appName: auth.Key("application_credential_name"),
		appSecret: auth.Key("application_credential_secret"), user: auth.Key("username"), password: auth.Key("password"),
		project: auth.Key("project_name"), iface: fault.Root.Key("interface"),
	})...)
}

// oneDomain leaves one name of a domain: an id before a name, its own before what
// stands for both.
func oneDomain(id, name *string, otherID, otherName string) {
	switch {
	case *id != "":
		*name = ""
	case *name != "":
	case otherName != "":
		*name = otherName
	default:
		*id = otherID
	}
}

func (e entry) faults(value any) fault.List {
	var faults fault.List
	for _, pointer := range slices.Sorted(maps.Keys(unsupported)) {
		if present(value, strings.Split(pointer, "/")[1:]) {
			faults = append(faults, fault.Fault{Pointer: pointer, Message: unsupported[pointer]})
		}
	}
	switch e.AuthType {
	case "", "password", "v3password", "v3applicationcredential":
	default:
		faults = append(faults, fault.Root.Key("auth_type").Fault(fmt.Sprintf("is %q; expected password, v3password or v3applicationcredential", e.AuthType)))
	}
	if (e.Cert == "") != (e.Key == "") {
		faults = append(faults, fault.Root.Key("cert").Fault("expected cert and key both, or neither"))
	}
	return faults
}

func present(value any, path []string) bool {
	for _, key := range path {
		object, ok := value.(map[string]any)
		if !ok {
			return false
		}
		value = object[key]
	}
	return value != nil && value != ""
}

// readFiles takes in the certificates that the entry names.
func (c *credential) readFiles(value any) error {
	object, _ := value.(map[string]any)
	for key, into := range map[string]*string{"cacert": &c.CA, "cert": &c.ClientCertificate, "key": &c.ClientKey} {
		path, _ := object[key].(string)
		if path == "" {
			continue
		}
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%s of the cloud is %q; expected an absolute path", key, path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading %s of the cloud: %w", key, err)
		}
		*into = string(data)
	}
	return nil
}

func kind(of string) string {
	switch of {
	case "bool":
		return "true or false"
	case "struct":
		return "an object"
	}
	return "a text"
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
