package etcd_test

import (
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/etcd"
)

// The member of a machine has its Node's name or, as long as it has not started or the Node is
// gone, its address, which another machine may have by now.
func TestWhoseAMemberIs(t *testing.T) {
	member := func(name, address string) etcd.Member {
		return etcd.Member{ID: name + address, Name: name, PeerURLs: []string{"https://" + address + ":2380"}}
	}
	server := func(address string) etcd.Machine { return etcd.Machine{Addresses: []string{address}} }
	node := func(name, address string) etcd.Machine {
		return etcd.Machine{Node: name, Addresses: []string{address}}
	}
	for name, c := range map[string]struct {
		member         etcd.Member
		leaves, stays  etcd.Machine
		wantItToBeGone bool
	}{
		"by its Node's name":                        {member("m2", "10.10.0.2"), node("m2", "10.10.0.9"), node("m1", "10.10.0.1"), true},
		"by its server's address":                   {member("m2", "10.10.0.2"), server("10.10.0.2"), node("m1", "10.10.0.1"), true},
		"by its address in IPv6":                    {member("", "[fd00::2]"), server("fd00:0::2"), node("m1", "fd00::1"), true},
		"it has not started":                        {member("", "10.10.0.2"), node("m2", "10.10.0.2"), node("m1", "10.10.0.1"), true},
		"of another machine":                        {member("m1", "10.10.0.1"), node("m2", "10.10.0.2"), node("m1", "10.10.0.1"), false},
		"a listed server has its address":           {member("", "10.10.0.2"), node("m2", "10.10.0.2"), server("10.10.0.2"), false},
		"a Node that stays has its address":         {member("m2-new", "10.10.0.2"), server("10.10.0.2"), node("m2-new", "10.10.0.2"), false},
		"a Node that stays has its name":            {member("m2", "10.10.0.2"), server("10.10.0.2"), node("m2", "10.10.0.7"), false},
		"its Node leaves, and its address is taken": {member("m2", "10.10.0.2"), node("m2", "10.10.0.2"), server("10.10.0.2"), true},
		"no machine has its address":                {member("", "10.10.0.8"), node("m2", "10.10.0.2"), node("m1", "10.10.0.1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			other := member("other", "10.10.0.77")
			of := etcd.Of([]etcd.Member{other, c.member}, []etcd.Machine{c.leaves}, []etcd.Machine{c.stays})
			gone := slices.ContainsFunc(of, func(m etcd.Member) bool { return m.ID == c.member.ID })
			if gone != c.wantItToBeGone || len(of) > 1 {
				t.Errorf("the members to remove are %+v", of)
			}
		})
	}
}
