package pki

import (
	"bytes"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

func TestCertificatesOfOthersAreRefused(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	foreign, _ := other.enrolled(nodeID)
	own, ownKey := w.enrolled(nodeID)

	// A node that plays authority with its own certificate.
	uri, _ := url.Parse(api.NodeURN + "victim")
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: w.now.Add(-time.Minute), NotAfter: w.now.Add(time.Hour),
		URIs: []*url.URL{uri}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	forged, err := issue(template, ownKey.Public(), &pair{cert: own[0], key: ownKey})
	if err != nil {
		t.Fatal(err)
	}
	// A mistake of ours: a listener's certificate with a node's name.
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	listener, err := issue(template, ownKey.Public(), w.issuer())
	if err != nil {
		t.Fatal(err)
	}
	for name, chain := range map[string][]*x509.Certificate{
		"a listener's":                        {listener},
		"another authority's":                 foreign,
		"another's with our intermediate":     {foreign[0], own[1]},
		"another's with all of its authority": {foreign[0], foreign[1], other.root.cert},
		"signed by a node":                    {forged, own[0], own[1]},
		"the server's own":                    {w.ServerCertificate().Leaf},
		"an intermediate":                     {own[1]},
		"none":                                {},
	} {
		for _, renewal := range []bool{false, true} {
			if id, _, err := w.VerifyNode(chain, w.now, renewal); err == nil {
				t.Errorf("%s (renewal %v) was taken for node %q", name, renewal, id)
			}
		}
	}
}

func TestExpiredCertificatesMayRenewForThirtyDays(t *testing.T) {
	for name, c := range map[string]struct {
		age          time.Duration // since its end
		use, renewal bool
	}{
		"in its life":     {-time.Hour, true, true},
		"its last moment": {0, true, true},
		"a second late":   {time.Second, false, true},
		"29 days late":    {29 * day, false, true},
		"30 days late":    {30 * day, false, true},
		"31 days late":    {31 * day, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chain, _ := w.enrolled(nodeID)
			at := chain[0].NotAfter.Add(c.age)
			for _, try := range []struct{ renewal, want bool }{{false, c.use}, {true, c.renewal}} {
				id, _, err := w.VerifyNode(chain, at, try.renewal)
				if (err == nil) != try.want || (err == nil && id != nodeID) {
					t.Errorf("renewal %v: %q, %v; want accepted: %v", try.renewal, id, err, try.want)
				}
				if err != nil && !errors.Is(err, ErrExpired) {
					t.Errorf("renewal %v: %v, want ErrExpired", try.renewal, err)
				}
			}
		})
	}
	w := newWorld(t)
	chain, _ := w.enrolled(nodeID)
	if _, _, err := w.VerifyNode(chain, chain[0].NotBefore.Add(-time.Second), true); err == nil {
		t.Error("a certificate of the future was accepted")
	}
}

// The controller's clock is years behind, as on a machine without a battery: agents are told,
// and the log says it once, with both times.
func TestAClockBeforeTheCertificatesIsSaid(t *testing.T) {
	w := newWorld(t)
	chain, _ := w.enrolled(nodeID)
	var log bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&log, nil))
	w.now = time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	begins := chain[0].NotBefore.UTC().Format(time.RFC3339)
	for range 3 {
		_, _, err := w.VerifyNode(chain, w.now, false)
		if err == nil || !strings.Contains(err.Error(), begins) || !strings.Contains(err.Error(), "2020-01-02T03:04:05Z") {
			t.Errorf("the agent is told: %v", err)
		}
	}
	if text := log.String(); strings.Count(text, "level=ERROR") != 1 {
		t.Errorf("the log says:\n%s\nwant it once after three calls", text)
	}
	if err := w.Rotate(); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, begins) || !strings.Contains(text, "clock=2020-01-02T03:04:05Z") {
		t.Errorf("the log says:\n%s", text)
	}
	foreign, _ := newWorld(t).enrolled(nodeID)
	if _, _, err := w.VerifyNode(foreign, w.now, false); err == nil || strings.Contains(err.Error(), "clock") {
		t.Errorf("a certificate of another authority: %v", err)
	}
}

// What was verified once is not taken at another time, and not without its issuer.
func TestACertificateThatWasGoodIsCheckedAgain(t *testing.T) {
	w := newWorld(t)
	chain, _ := w.enrolled(nodeID)
	leaf := chain[:1]
	if id, _, err := w.VerifyNode(leaf, w.now, false); id != nodeID {
		t.Fatal(err)
	}
	if n := len(w.verified.good); n != 1 {
		t.Errorf("%d certificates are remembered, want 1", n)
	}
	for name, at := range map[string]time.Time{"before its time": leaf[0].NotBefore.Add(-time.Second), "after it": leaf[0].NotAfter.Add(31 * day)} {
		if _, _, err := w.VerifyNode(leaf, at, true); err == nil {
			t.Errorf("accepted %s", name)
		}
	}
	issuer := w.issuer()
	ends := newTemplate(w.now, time.Hour, issuer.cert.Subject.CommonName)
	authority(ends, 0)
	short, err := sign(ends, issuer.key, w.root)
	if err != nil {
		t.Fatal(err)
	}
	w.set(func() { w.intermediates = []*pair{short} })
	if _, _, err := w.VerifyNode(leaf, w.now, false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.VerifyNode(leaf, w.now.Add(2*time.Hour), false); err == nil {
		t.Error("accepted after the end of its intermediate")
	}
	w.set(func() { w.intermediates = nil })
	if _, _, err := w.VerifyNode(leaf, w.now, false); err == nil {
		t.Error("accepted without its intermediate")
	}
}

func BenchmarkVerifyNode(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "pki")
	a, err := Load(Options{Dir: dir, Names: []string{"controller.example"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	text, _, _, err := a.SignNode(nodeID, requestPEM(testca.NewKey(), nil))
	if err != nil {
		b.Fatal(err)
	}
	leaf := parseChain(b, text)[:1]
	for b.Loop() {
		if _, _, err := a.VerifyNode(leaf, time.Now(), false); err != nil {
			b.Fatal(err)
		}
	}
}
