package persistentvolume_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/nodehitch/nodehitch/shared/api"
)

// dns is a DNS server of this test, which answers on the loopback.
type dns struct {
	addresses map[string]string // by the name with its dot
	silent    bool
	mu        sync.Mutex
	asked     map[string]bool
}

// resolver asks the server and no other.
func (d *dns) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	listener, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.asked = map[string]bool{}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	go func() {
		defer close(ended)
		packet := make([]byte, 1500)
		for {
			n, from, err := listener.ReadFrom(packet)
			if err != nil {
				return
			}
			if answer := d.answer(packet[:n]); answer != nil {
				_, _ = listener.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", listener.LocalAddr().String())
	}}
}

// names are those that the server was asked for.
func (d *dns) names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.asked))
}

func (d *dns) answer(packet []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[q.Name.String()] = true
	if d.silent {
		return nil
	}
	m.Response, m.Additionals = true, nil
	address, known := d.addresses[strings.ToLower(q.Name.String())]
	switch a, _ := netip.ParseAddr(address); {
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA && a.Is4():
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: a.As4()}}}
	case q.Type == dnsmessage.TypeAAAA && a.Is6():
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}}}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}

// withTheirs is a master that is to withdraw pv1, while a volume of others, whose server is
// written so, is bound.
func withTheirs(t *testing.T, d *dns, written string) *rig {
	r := master(t, "pv1")
	r.resolver, r.resolveLimit = d.resolver(t), 300*time.Millisecond
	r.restart(5 * time.Second)
	r.expect("True Registered")
	r.api.did = nil
	r.foreign("theirs", written)
	r.api.bind("theirs", "shop", "data")
	r.absent()
	return r
}

func TestAVolumeCountsByEveryWayToItsServer(t *testing.T) {
	const floating, six = "203.0.113.5", "fd00:10::5"
	names := map[string]string{"nfs.example.": server, "float.example.": floating, "six.example.": six, "other.example.": "10.10.0.50"}
	for written, says := range map[string]string{
		floating:                 "PersistentVolume theirs is Bound, by claim shop/data",
		"nfs.example.":           "its server nfs.example. is 10.10.0.5",
		"float.example.":         "its server float.example. is 203.0.113.5",
		"six.example.":           "its server six.example. is fd00:10::5",
		"other.example.":         "",
		"10.10.0.50":             "",
		"gone.example.":          "its server's name gone.example. does not resolve on this master",
		"nfs.shop.svc.invalid.":  "nfs.shop.svc.invalid. does not resolve on this master",
		"10.657413":              "10.657413 does not resolve", // 10.10.8.5 to the C library
		"0x0a.0x0a.0x00.0x05":    "0x0a.0x0a.0x00.0x05 does not resolve",
		"[nfs.example.]":         "does not resolve",
		"two words":              "does not resolve",
		"NFS.Example.":           "its server NFS.Example. is 10.10.0.5",
		"fe80::5%eth0":           "",
		"::ffff:203.0.113.5":     "PersistentVolume theirs is Bound",
		"0000:0::ffff:cb00:7105": "PersistentVolume theirs is Bound",
	} {
		t.Run(written, func(t *testing.T) {
			r := withTheirs(t, &dns{addresses: names}, written)
			r.doc.PersistentVolumes.Servers = []string{server, floating, six}
			if says == "" {
				r.expect("True Absent")
				r.did("delete pv1")
				return
			}
			report := r.expect("False InUse", "none is deleted", "theirs", "shop/data", says)
			r.did()
			if report.FailedCondition != api.ConditionPersistentVolumesRegistered {
				t.Error("an operator has to act, and it is not said to have failed")
			}
		})
	}
}

// A volume of others that no claim has delays nothing, whatever its server's name is.
func TestOnlyBoundVolumesAreLookedUp(t *testing.T) {
	d := &dns{silent: true}
	r := withTheirs(t, d, "nfs.example.")
	r.api.change("theirs", func(v object) { v["status"] = object{"phase": "Released"} })
	r.expect("True Absent")
	r.did("delete pv1")
	if names := d.names(); len(names) != 0 {
		t.Errorf("asked for %v", names)
	}
}

// Registering looks up nothing.
func TestRegisteringLooksUpNoName(t *testing.T) {
	d := &dns{silent: true}
	r := withTheirs(t, d, "nfs.example.")
	r.doc.PersistentVolumes.State = api.PersistentVolumesPresent
	r.expect("True Registered")
	if names := d.names(); len(names) != 0 {
		t.Errorf("asked for %v", names)
	}
}

func TestADNSServerThatIsSilentDeletesNothing(t *testing.T) {
	r := withTheirs(t, &dns{silent: true}, "nfs.example.")
	r.expect("False InUse", "nfs.example. does not resolve on this master")
	r.did()
}

// What a name means may change between the plan and the deletion.
func TestANameIsResolvedAgainBeforeTheDeletion(t *testing.T) {
	d := &dns{addresses: map[string]string{"nfs.example.": "10.10.0.50"}}
	r := withTheirs(t, d, "nfs.example.")
	lists := 0
	r.api.before = func(request string) {
		if request == "list" {
			if lists++; lists == 2 {
				d.mu.Lock()
				d.addresses = map[string]string{"nfs.example.": server}
				d.mu.Unlock()
			}
		}
	}
	r.expect("False InUse", "its server nfs.example. is 10.10.0.5")
	r.did()
}

func TestNoMoreNamesThan64AreResolved(t *testing.T) {
	d := &dns{addresses: map[string]string{}}
	r := withTheirs(t, d, "10.10.0.50")
	for i := range 65 {
		name := fmt.Sprintf("nfs-%02d.example.", i)
		d.mu.Lock()
		d.addresses[name] = "10.10.0.50"
		d.mu.Unlock()
		for _, copy := range []string{"a", "b"} { // a name is resolved once
			r.foreign(name+copy, name)
			r.api.bind(name+copy, "shop", name+copy)
		}
	}
	r.resolveLimit = 10 * time.Second
	r.restart(5 * time.Second)
	r.expect("False InUse", "PersistentVolume nfs-64.example.a is Bound", "PersistentVolume nfs-64.example.b is Bound", "64 names and no more")
	r.did()
	if names := d.names(); len(names) != 64 {
		t.Errorf("%d names were resolved, want 64", len(names))
	}
}

func TestTheStatusNamesWhatIsBound(t *testing.T) {
	r := master(t, "pv1", "pv2")
	r.expect("True Registered")
	r.foreign("theirs", server)
	r.api.bind("theirs", "shop", "other")
	r.api.bind("pv2", "shop", "data")
	want := func(all ...api.BoundPersistentVolume) {
		t.Helper()
		if got := r.pass().BoundPersistentVolumes; fmt.Sprint(got) != fmt.Sprint(all) {
			t.Errorf("bound are %v, want %v", got, all)
		}
	}
	want(api.BoundPersistentVolume{Name: "pv2", Server: server, Claim: "shop/data"})
	r.api.mu.Lock()
	r.api.answer = 503
	r.api.mu.Unlock()
	want(api.BoundPersistentVolume{Name: "pv2", Server: server, Claim: "shop/data"}) // as it was seen last
	r.api.mu.Lock()
	r.api.answer = 0
	r.api.mu.Unlock()
	r.api.change("pv2", func(v object) { v["status"] = object{"phase": "Released"} })
	want()
	r.api.bind("pv2", "shop", "data")
	want(api.BoundPersistentVolume{Name: "pv2", Server: server, Claim: "shop/data"})
	r.absent()
	want()
}

func TestTheStatusIsBounded(t *testing.T) {
	var all []string
	for i := range 300 {
		all = append(all, fmt.Sprintf("pv-%03d", i))
	}
	r := master(t, all...)
	r.expect("True Registered")
	for _, name := range all {
		r.api.bind(name, "shop", name)
	}
	if got := r.pass().BoundPersistentVolumes; len(got) != 256 || got[0].Name != "pv-000" || got[255].Name != "pv-255" {
		t.Errorf("%d are named: %v", len(got), got)
	}
}
