package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// Assignment says what each server of a topology is for.
type Assignment struct {
	// Roles has the role of each server by its id. A server without one is not
	// nodehitch's: it gets no configuration and cannot enroll.
	Roles map[string]api.Role
	// Missing are the roles that the parameters require and no server has.
	Missing []api.Role
	// Faults make the topology unusable: a server with two roles, a second server
	// for a role that has one. Warnings do not.
	Faults, Warnings fault.List
}

// Servers are the ids of the servers of a role, ordered.
func (a *Assignment) Servers(r api.Role) []string {
	var ids []string
	for id, role := range a.Roles {
		if role == r {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Assign gives each server its role: the one whose connection point, aspect or VDU,
// as the parameters name them, it has. at is the topology's place in the request.
// The topology is normalized; nil has no server. Without parameters no server has a role.
func Assign(p *params.Params, t *api.Topology, at fault.At) *Assignment {
	a := &Assignment{Roles: map[string]api.Role{}}
	claims := claimsOf(p)
	first := map[api.Role]api.Server{}
	for i, s := range serversOf(t) {
		role, ok := a.role(claims, s, at.Key("servers").Index(i))
		if !ok {
			continue
		}
		other, again := first[role]
		if again && (role == api.RoleStorage || role == api.RoleRegistry) {
			a.Faults = append(a.Faults, at.Key("servers").Index(i).Fault(fmt.Sprintf(
				"%s is a second %s server beside %s; the parameters describe one", label(s), role, label(other))))
		}
		first[role] = s
		a.Roles[s.ID] = role
	}
	for _, c := range claims {
		if _, ok := first[c.role]; !ok {
			a.Missing = append(a.Missing, c.role)
		}
	}
	return a
}

// role is the one role whose parameters recognise the server. A server without a role is ignored
// with a warning; several roles are a fault.
func (a *Assignment) role(claims []claim, s api.Server, at fault.At) (api.Role, bool) {
	var found []claim
	var whys []string
	for _, c := range claims {
		if why := c.matches(s); why != "" {
			found = append(found, c)
			whys = append(whys, fmt.Sprintf("%s makes it %s", why, c.role))
		}
	}
	switch len(found) {
	case 1:
		return found[0].role, true
	case 0:
		a.Warnings = append(a.Warnings, at.Fault(fmt.Sprintf("%s has no role and is ignored; it would need %s", label(s), wanted(claims))))
	default:
		a.Faults = append(a.Faults, at.Fault(fmt.Sprintf(
			"%s has more than one role: %s; give its aspectId or vduId, or a connection point that only one role has", label(s), strings.Join(whys, ", "))))
	}
	return "", false
}

// claim is how the parameters recognise the servers of one role.
type claim struct {
	role        api.Role
	aspect, vdu string
	points      []string
}

func claimsOf(p *params.Params) []claim {
	switch {
	case p == nil:
		return nil
	case p.Registry != nil:
		return []claim{newClaim(api.RoleRegistry, "", p.Registry.VduID, p.Registry.SSHCPName)}
	case p.Cluster == nil:
		return nil
	}
	c := p.Cluster
	claims := []claim{
		newClaim(api.RoleMaster, c.Master.AspectID, c.Master.VduID, c.Master.SSHCPName, c.Master.NICCPName),
		newClaim(api.RoleWorker, c.Worker.AspectID, c.Worker.VduID, c.Worker.SSHCPName, c.Worker.NICCPName),
	}
	if s := c.StorageServer; s != nil {
		claims = append(claims, newClaim(api.RoleStorage, "", s.VduID, s.SSHCPName, s.NICCPName))
	}
	return claims
}

func newClaim(role api.Role, aspect, vdu string, points ...string) claim {
	points = slices.DeleteFunc(points, func(p string) bool { return p == "" })
	slices.Sort(points)
	return claim{role: role, aspect: aspect, vdu: vdu, points: slices.Compact(points)}
}

// matches says why the server has the role, or "". Members of two groups, and servers of
// two VDUs, may have connection points of one name (each nested template has its own), so
// nothing else counts if the server is known to be in another group or of another VDU.
func (c claim) matches(s api.Server) string {
	if another(c.aspect, s.AspectID) || another(c.vdu, s.VduID) {
		return ""
	}
	if c.aspect != "" && s.AspectID != "" {
		return fmt.Sprintf("its aspect %q", c.aspect)
	}
	if c.vdu != "" && s.VduID != "" {
		return fmt.Sprintf("its VDU %q", c.vdu)
	}
	for _, p := range s.ConnectionPoints {
		if slices.Contains(c.points, p.Name) {
			return fmt.Sprintf("its connection point %q", p.Name)
		}
	}
	return ""
}

// another reports whether a server is known to have another value than the one wanted.
func another(wanted, has string) bool { return wanted != "" && has != "" && wanted != has }

// wanted lists what would give a server a role.
func wanted(claims []claim) string {
	var all []string
	for _, c := range claims {
		all = append(all, c.String())
	}
	return strings.Join(all, ", or ")
}

// String is what a server of the role has, and the role.
func (c claim) String() string { return c.signs() + " (" + string(c.role) + ")" }

func (c claim) signs() string {
	var has []string
	for _, p := range c.points {
		has = append(has, fmt.Sprintf("connection point %q", p))
	}
	if c.aspect != "" {
		has = append(has, fmt.Sprintf("aspect %q", c.aspect))
	}
	if c.vdu != "" {
		has = append(has, fmt.Sprintf("VDU %q", c.vdu))
	}
	return strings.Join(has, " or ")
}

// NoServer says that no server has the role, and what would give it to one.
func NoServer(p *params.Params, role api.Role) string {
	for _, c := range claimsOf(p) {
		if c.role == role {
			return fmt.Sprintf("no server has the role %s: a server gets it by %s", role, c.signs())
		}
	}
	return ""
}

// Sign is what a server has to have to get the role, in words.
func Sign(p *params.Params, role api.Role) string {
	for _, c := range claimsOf(p) {
		if c.role == role {
			return c.String()
		}
	}
	return ""
}

func serversOf(t *api.Topology) []api.Server {
	if t == nil {
		return nil
	}
	return t.Servers
}

func label(s api.Server) string { return fmt.Sprintf("%s (%s)", s.Name, s.ID) }

// Named is the servers that a VNFC is named by: by its VNFC instance id, by the server's own
// id, or by the nested stack that is a member of a Heat group, with all servers in it.
func Named(servers []api.Server, id string) []api.Server {
	var list []api.Server
	for _, s := range servers {
		if lower := strings.ToLower(id); id != "" && (s.VnfcInstanceID == id || s.ID == lower || s.MemberStackID == lower) {
			list = append(list, s)
		}
	}
	return list
}
