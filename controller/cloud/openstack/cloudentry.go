package openstack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// fromEntry is the credential that an entry contains; the files that it names are not
// read yet.
func fromEntry(value any) (credential, fault.List) {
	text, err := json.Marshal(value)
	if err != nil {
		return credential{}, fault.List{fault.Root.Fault("has a value that JSON cannot hold")}
	}
	var e entry
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(text, &e); errors.As(err, &wrong) {
		return credential{}, fault.List{{Pointer: "/" + strings.ReplaceAll(wrong.Field, ".", "/"),
			Message: fmt.Sprintf("is %s; expected %s (a text that looks like a number, or like yes or no, needs quotes)", kind(wrong.Value), kind(wrong.Type.Kind().String()))}}
	} else if err != nil {
		return credential{}, fault.List{fault.Root.Fault("expected an object")}
	}
	faults := e.faults(value)
	a := e.Auth
	fallback := cmp.Or(a.DomainID, a.DefaultDomain)
	c := credential{
		AuthURL: a.AuthURL, AppID: a.AppID, AppName: a.AppName, AppSecret: a.AppSecret,
		UserID: a.UserID, User: a.Username, Password: a.Password,
		UserDomainID: a.UserDomainID, UserDomain: a.UserDomainName,
		ProjectID: a.ProjectID, Project: a.ProjectName,
		ProjectDomainID: a.ProjectDomainID, ProjectDomainName: a.ProjectDomainName,
		Region: e.RegionName, Interface: strings.TrimSuffix(cmp.Or(e.EndpointType, e.Interface), "URL"),
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

// kind is the words for a kind of value, as Go or JSON calls it.
func kind(of string) string {
	if of, _, _ = strings.Cut(of, " "); words[of] != "" { // "number 7" contains the value
		return words[of]
	}
	return "another kind of value"
}

var words = map[string]string{
	"bool": "true or false", "struct": "an object", "object": "an object", "string": "a text", "number": "a number", "array": "a list",
}
