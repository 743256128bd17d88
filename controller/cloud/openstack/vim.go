package openstack

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// errNoVIM says that a vimConnectionInfo has no credential for an OpenStack: it is
// empty, names other kinds of VIM, or only the id of one that Tacker knows.
var errNoVIM = errors.New("no credential of an OpenStack")

// vimTypes are the values of vimType that mean an OpenStack with Keystone v3, in lower
// case: Tacker's own and ETSI's registered names. Tacker's documents write v_2 too.
var vimTypes = []string{"openstack", "etsinfv.openstack_keystone.v_3", "etsinfv.openstack_keystone.v_2"}

// connection is one VimConnectionInfo of SOL003, as far as it is used.
type connection struct {
	at            fault.At
	VIMID         string          `json:"vimId"`
	VIMType       string          `json:"vimType"`
	InterfaceInfo json.RawMessage `json:"interfaceInfo"`
	AccessInfo    json.RawMessage `json:"accessInfo"`
}

// fromVIM is the credential of an instance's vimConnectionInfo, a list as in version 1
// of SOL003 or an object with one member for each VIM; at is its place.
//
// skipCertificateHostnameCheck and skipCertificateVerification are read and not
// followed: Tacker sets both without being asked, and a client that may create an instance
// could disable the check of certificates. trustedCertificates is followed.
func fromVIM(text json.RawMessage, at fault.At) (credential, error) {
	connections, faults := readConnections(text, at)
	if len(faults) > 0 {
		return credential{}, faults
	}
	var found []credential
	var names []string
	for _, c := range connections {
		got, has, wrong := c.credential()
		faults = append(faults, wrong...)
		if has {
			found, names = append(found, got), append(names, string(c.at))
		}
	}
	switch {
	case len(faults) > 0:
		return credential{}, faults
	case len(found) == 0:
		return credential{}, errNoVIM
	case slices.ContainsFunc(found, func(c credential) bool { return c != found[0] }):
		return credential{}, fault.List{at.Fault("names several clouds (" + strings.Join(names, ", ") +
			"), and an instance's stack is in one; give that one only")}
	}
	return found[0], nil
}

// readConnections is the entries in a fixed order.
func readConnections(text json.RawMessage, at fault.At) ([]connection, fault.List) {
	var list []json.RawMessage
	var object map[string]json.RawMessage
	var out []connection
	var faults fault.List
	read := func(at fault.At, raw json.RawMessage) {
		c := connection{at: at}
		if err := json.Unmarshal(raw, &c); err != nil {
			faults = append(faults, at.Fault("expected an object with vimId and vimType as texts"))
			return
		}
		out = append(out, c)
	}
	switch {
	case len(text) == 0 || string(text) == "null":
	case json.Unmarshal(text, &list) == nil:
		for i, raw := range list {
			read(at.Index(i), raw)
		}
	case json.Unmarshal(text, &object) == nil:
		for name, raw := range object {
			read(at.Key(name), raw)
		}
		slices.SortFunc(out, func(a, b connection) int { return cmp.Compare(a.at, b.at) })
		slices.SortFunc(faults, func(a, b fault.Fault) int { return cmp.Compare(a.Pointer, b.Pointer) })
	default:
		faults = append(faults, at.Fault("expected a list of VimConnectionInfo of SOL003, or an object with one member for each"))
	}
	return out, faults
}

// credential is what the connection says, and whether it says anything: only one whose type is
// among vimTypes does.
func (c connection) credential() (credential, bool, fault.List) {
	if !slices.Contains(vimTypes, strings.ToLower(c.VIMType)) {
		return credential{}, false, nil
	}
	access := members{at: c.at.Key("accessInfo")}
	iface := members{at: c.at.Key("interfaceInfo")}
	access.read(c.AccessInfo)
	iface.read(c.InterfaceInfo)
	if len(access.values) == 0 && len(access.faults) == 0 {
		return credential{}, false, nil // Tacker knows the rest by vimId
	}
	out := credential{
		AuthURL: cmp.Or(iface.text("endpoint"), access.text("authUrl")),
		AppID:   access.text("applicationCredentialId"), AppName: access.text("applicationCredentialName"),
		AppSecret: access.text("applicationCredentialSecret"),
		UserID:    access.text("userId"), User: access.text("username"), Password: access.text("password"),
		UserDomainID: access.text("userDomainId"), UserDomain: cmp.Or(access.text("userDomain"), access.text("userDomainName")),
		ProjectID: access.text("projectId"), Project: cmp.Or(access.text("project"), access.text("projectName")),
		ProjectDomainID:   access.text("projectDomainId"),
		ProjectDomainName: cmp.Or(access.text("projectDomain"), access.text("projectDomainName")),
		Region:            cmp.Or(access.text("region"), access.text("regionName")),
	}
	oneDomain(&out.UserDomainID, &out.UserDomain, "", "")
	oneDomain(&out.ProjectDomainID, &out.ProjectDomainName, "", "")
	out.CA = iface.certificates("trustedCertificates")
	faults := slices.Concat(access.faults, iface.faults)
	if len(faults) == 0 {
		faults = out.complete(places{
			authURL: iface.at.Key("endpoint"), appID: access.at.Key("applicationCredentialId"), appName: access.at.Key("applicationCredentialName"),
			appSecret: access.at.Key("applicationCredentialSecret"), user: access.at.Key("username"), password: access.at.Key("password"),
			project: access.at.Key("project"), iface: access.at,
		})
	}
	return out, true, faults
}
