package topology

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// maxName is the longest name that Nova, Neutron and Heat take.
const maxName = 255

// Validate is everything that is wrong with a topology alone; at is its place
// in the request. A nil topology is valid.
//
// Two servers may have one name (a Heat group gives its members the same), and
// one volume may be attached to two servers: that is a state of the cloud, which
// the plan answers with MultiAttached, not a mistake of the request.
func Validate(t *api.Topology, at fault.At) fault.List {
	if t == nil {
		return nil
	}
	v := validation{volumes: map[string]string{}}
	v.volumeList(t.Volumes, at.Key("volumes"))
	v.serverList(t.Servers, at.Key("servers"))
	v.points(t.ConnectionPoints, at.Key("connectionPoints"))
	return v.faults
}

type validation struct {
	faults fault.List
	// volumes maps the id of each volume of the topology to where it is.
	volumes map[string]string
}

func (v *validation) fault(at fault.At, format string, args ...any) {
	v.faults = append(v.faults, at.Fault(fmt.Sprintf(format, args...)))
}

// once reports what is already in seen, and puts it there.
func (v *validation) once(seen map[string]string, what, key string, at fault.At) {
	if first, again := seen[key]; again {
		v.fault(at, "%s %q is already at %s; give it once", what, key, first)
		return
	}
	seen[key] = string(at)
}

func (v *validation) id(what, id string, at fault.At) bool {
	if len(id) != 36 || uuid.Validate(id) != nil {
		v.fault(at, "%q is no %s; expected a UUID such as 4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1", shown(id), what)
		return false
	}
	return true
}

func (v *validation) name(what, name string, at fault.At) bool {
	switch {
	case strings.TrimSpace(name) == "":
		v.fault(at, "is empty; expected %s", what)
	case len(name) > maxName:
		v.fault(at, "has %d bytes; %s has at most %d", len(name), what, maxName)
	case strings.ContainsFunc(name, unicode.IsControl):
		v.fault(at, "%q holds a control character; expected %s", shown(name), what)
	default:
		return true
	}
	return false
}

func (v *validation) volumeList(volumes []api.TopologyVolume, at fault.At) {
	resources := map[string]string{}
	for i, vol := range volumes {
		here := at.Index(i)
		if v.name("the volume's resource name in the Heat template", vol.ResourceID, here.Key("resourceId")) {
			v.once(resources, "the resource", vol.ResourceID, here.Key("resourceId"))
		}
		if v.id("Cinder volume id", vol.ID, here.Key("id")) {
			v.once(v.volumes, "the volume", strings.ToLower(vol.ID), here.Key("id"))
		}
		v.member("volume", vol.MemberStackID, here)
		if vol.SizeBytes < 0 {
			v.fault(here.Key("sizeBytes"), "is %d; expected the size in bytes, or leave it out", vol.SizeBytes)
		}
	}
}

func (v *validation) serverList(servers []api.Server, at fault.At) {
	ids := map[string]string{}
	for i, s := range servers {
		here := at.Index(i)
		if v.id("server id (Nova's; without OpenStack the UUID of the VM)", s.ID, here.Key("id")) {
			v.once(ids, "the server", strings.ToLower(s.ID), here.Key("id"))
		}
		v.name("the server's name", s.Name, here.Key("name"))
		v.member("server", s.MemberStackID, here)
		v.points(s.ConnectionPoints, here.Key("connectionPoints"))
		v.attached(s.VolumeIds, here.Key("volumeIds"))
	}
	v.vnfcs(servers, at)
}

func (v *validation) member(what, id string, at fault.At) {
	if id != "" {
		v.id("Heat stack id (of the nested stack that the "+what+" is in)", id, at.Key("memberStackId"))
	}
}

// vnfcs wants one server for each VNFC instance, if they are given.
func (v *validation) vnfcs(servers []api.Server, at fault.At) {
	seen := map[string]string{}
	for i, s := range servers {
		if s.VnfcInstanceID != "" {
			v.once(seen, "the VNFC instance", s.VnfcInstanceID, at.Index(i).Key("vnfcInstanceId"))
		}
	}
}

func (v *validation) points(points []api.ConnectionPoint, at fault.At) {
	names := map[string]string{}
	for i, p := range points {
		here := at.Index(i)
		if v.name("the connection point's name", p.Name, here.Key("name")) {
			v.once(names, "the connection point", p.Name, here.Key("name"))
		}
		v.member("port", p.MemberStackID, here)
		for j, a := range p.Addresses {
			v.address(a, here.Key("addresses").Index(j))
		}
		for j, a := range p.FloatingAddresses {
			v.address(a, here.Key("floatingAddresses").Index(j))
		}
	}
}

func (v *validation) address(s string, at fault.At) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		v.fault(at, "%q is no IP address; expected IPv4 such as 10.10.0.5, or IPv6", shown(s))
	case a.Zone() != "":
		v.fault(at, "%q has a zone, which is valid on one machine only; leave it out", shown(s))
	case a.IsUnspecified() || a.IsMulticast():
		v.fault(at, "%q is not the address of one machine", s)
	}
}

func (v *validation) attached(ids []string, at fault.At) {
	seen := map[string]string{}
	for i, id := range ids {
		here := at.Index(i)
		if !v.id("Cinder volume id", id, here) {
			continue
		}
		id = strings.ToLower(id)
		v.once(seen, "the volume", id, here)
		if _, known := v.volumes[id]; !known {
			v.fault(here, "the volume %s is not in the topology's volumes; add it there with its resourceId", id)
		}
	}
}

// shown bounds what a message repeats of the request.
func shown(s string) string {
	const most = 64
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// CheckStackID wants the two places of a request that name the stack, stackId and the
// topology's own, to agree.
func CheckStackID(id string, t *api.Topology, at fault.At) fault.List {
	if t != nil && id != "" && t.StackID != "" && id != t.StackID {
		return fault.List{at.Key("stackId").Fault(fmt.Sprintf("is %q and the request's stackId is %q; they name one stack", t.StackID, id))}
	}
	return nil
}
