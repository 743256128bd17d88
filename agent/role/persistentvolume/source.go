package persistentvolume

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// source is spec.nfs, which cannot be changed.
type source struct {
	server, path string
	readOnly     bool
}

func (s source) String() string {
	if s == (source{}) {
		return "no NFS export"
	}
	text := s.server + ":" + s.path
	if strings.Contains(s.server, ":") && !strings.HasPrefix(s.server, "[") {
		text = "[" + s.server + "]:" + s.path
	}
	if s.readOnly {
		text += " (read-only)"
	}
	return text
}

func (v volume) source() source {
	readOnly, _, _ := unstructured.NestedBool(v.Object, "spec", "nfs", "readOnly")
	return source{server: v.text("spec", "nfs", "server"), path: v.text("spec", "nfs", "path"), readOnly: readOnly}
}

// servedBy reports whether the volume is on the server with these addresses.
func (v volume) servedBy(servers []string) bool {
	have := v.source().server
	return have != "" && slices.ContainsFunc(servers, func(s string) bool { return sameAddress(have, s) })
}

// sameAddress compares addresses in any notation: kubelet also accepts IPv6 in brackets.
func sameAddress(x, y string) bool {
	a, okA := addressOf(x)
	b, okB := addressOf(y)
	if !okA || !okB {
		return x == y
	}
	return a == b
}

// addressOf is the address that a server is written as; false for a name.
func addressOf(server string) (netip.Addr, bool) {
	if inner, ok := strings.CutPrefix(server, "["); ok {
		server = strings.TrimSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(server)
	return a.Unmap(), err == nil
}

// writtenAs returns the volume with its server in the notation of the live one if both
// are the same address, because Kubernetes does not allow a change of notation either.
func (v volume) writtenAs(live volume) volume {
	if !sameAddress(v.source().server, live.source().server) || v.source() == live.source() {
		return v
	}
	same := volume{v.DeepCopy()}
	_ = unstructured.SetNestedField(same.Object, live.source().server, "spec", "nfs", "server") // spec.nfs is an object, or there is no server
	return same
}
