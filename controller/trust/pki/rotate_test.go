package pki

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheRootOutlivesRestartsAndRotations(t *testing.T) {
	w := newWorld(t)
	pin := w.Pin()
	block, _ := pem.Decode([]byte(w.RootPEM()))
	sum := sha256.Sum256(block.Bytes)
	if want := "sha256:" + hex.EncodeToString(sum[:]); pin != want {
		t.Errorf("pin %s, want %s", pin, want)
	}
	for range 10 {
		w.pass(year)
		w.restart()
	}
	if got := w.Pin(); got != pin {
		t.Errorf("the pin is %s after ten years, was %s", got, pin)
	}
}

func TestServerCertificateRotates(t *testing.T) {
	w := newWorld(t)
	serial := func() string { return serialText(w.ServerCertificate().Leaf.SerialNumber) }
	first := serial()
	w.pass(59 * day)
	w.restart()
	if serial() != first {
		t.Error("replaced before two thirds of its life")
	}
	w.pass(2 * day)
	second := serial()
	if second == first {
		t.Error("not replaced after two thirds of its life")
	}
	w.names = []string{"other.example"}
	w.restart()
	leaf := w.ServerCertificate().Leaf
	if diff := cmp.Diff([]string{"other.example"}, leaf.DNSNames); diff != "" || len(leaf.IPAddresses) != 0 {
		t.Errorf("after the names changed it is for %v %v", leaf.DNSNames, leaf.IPAddresses)
	}
	third := serialText(leaf.SerialNumber)
	w.restart()
	if serial() != third {
		t.Error("replaced by a restart although nothing changed")
	}
}

// Agents know the root alone.
func TestClientsThatKnowTheRootTrustTheServer(t *testing.T) {
	w := newWorld(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.RootPEM()))
	for step := range 30 {
		cert := w.ServerCertificate()
		intermediates := x509.NewCertPool()
		for _, der := range cert.Certificate[1:] {
			c, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			intermediates.AddCert(c)
		}
		for _, name := range []string{"controller.example", "[192.0.2.1]", "[2001:db8::1]"} {
			for _, at := range []time.Time{w.now, w.now.Add(-50 * time.Minute)} {
				_, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: intermediates, CurrentTime: at})
				if err != nil {
					t.Fatalf("month %d, %s at %s: %v", step, name, at, err)
				}
			}
		}
		w.pass(30 * day)
	}
}

func TestIntermediateRotatesAndTheOldOneStaysGood(t *testing.T) {
	w := newWorld(t)
	w.pass(intermediateLife/2 - 2*time.Hour)
	before, _ := w.enrolled(nodeID)
	w.pass(3 * time.Hour)
	after, _ := w.enrolled(nodeID)
	if before[1].Equal(after[1]) {
		t.Fatal("the intermediate is the same past half of its life")
	}
	for name, chain := range map[string][]*x509.Certificate{"old": before, "new": after} {
		id, serial, err := w.VerifyNode(chain, w.now, false)
		if err != nil || id != nodeID || serial != serialText(chain[0].SerialNumber) {
			t.Errorf("under the %s intermediate: %q %q %v", name, id, serial, err)
		}
	}
	old, err := readPair(filepath.Join(w.dir, intermediateFile(before[1])))
	if err != nil {
		t.Fatal(err)
	}
	if old.key != nil {
		t.Error("the old intermediate's key is still on disk")
	}
	w.pass(intermediateLife/2 + RenewalGrace + 2*day)
	if _, err := os.Stat(filepath.Join(w.dir, intermediateFile(before[1]))); err == nil {
		t.Error("the old intermediate is still there when nothing under it counts any more")
	}
}

// A controller that was switched off for years starts and accepts what may renew.
func TestStartAfterYears(t *testing.T) {
	w := newWorld(t)
	w.now = w.now.Add(intermediateLife - 10*day)
	chain, _ := w.enrolled(nodeID) // no rotation ran
	w.now = w.now.Add(20 * day)
	w.restart()
	if _, _, err := w.VerifyNode(chain, w.now, true); err != nil {
		t.Errorf("a certificate that ended 19 days ago under an intermediate that ended too: %v", err)
	}
	fresh, _ := w.enrolled(nodeID)
	if _, _, err := w.VerifyNode(fresh, w.now, false); err != nil {
		t.Error(err)
	}
}

// The root's key may be kept elsewhere and brought back for a rotation.
func TestRootKeyKeptElsewhere(t *testing.T) {
	w := newWorld(t)
	key := w.root.key
	path := filepath.Join(w.dir, rootFile)
	if err := (&pair{cert: w.root.cert}).write(path); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.pass(intermediateLife - day/2)
	chain, _ := w.enrolled(nodeID)
	for _, cert := range []*x509.Certificate{chain[0], w.ServerCertificate().Leaf} {
		if !cert.NotAfter.Equal(w.issuer().cert.NotAfter) {
			t.Errorf("a certificate until %s is issued by one until %s", cert.NotAfter, w.issuer().cert.NotAfter)
		}
	}
	w.now = w.now.Add(day)
	wantError(t, w.Rotate(), rootFile, "put the key back")
	if err := (&pair{cert: w.root.cert, key: key}).write(path); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.enrolled(nodeID)
}

// The root's key was brought back late, just before the intermediate's end.
func TestANewIntermediateReplacesAServerCertificateThatTheOldOneMadeShort(t *testing.T) {
	w := newWorld(t)
	path, whole := filepath.Join(w.dir, rootFile), w.root
	if err := (&pair{cert: whole.cert}).write(path); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(intermediateLife - 10*day)
	w.restart()
	if left := w.ServerCertificate().Leaf.NotAfter.Sub(w.now); left != 10*day {
		t.Fatalf("the server certificate lasts %s, and its issuer 10 days", left)
	}
	if err := whole.write(path); err != nil {
		t.Fatal(err)
	}
	w.restart()
	server := w.ServerCertificate().Leaf
	if left := server.NotAfter.Sub(w.now); left != serverLife {
		t.Errorf("the intermediate was replaced, and the server certificate lasts %s", left)
	}
	w.restart()
	if !w.ServerCertificate().Leaf.Equal(server) {
		t.Error("replaced by a restart although nothing changed")
	}
}

// The listener's certificate is replaced while the controller runs, and stays in
// use when that fails.
func TestRunRotates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "pki")
		a, err := Load(Options{Dir: dir, Names: []string{"controller.example"}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		first := a.ServerCertificate().Leaf
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.Run(ctx); close(done) }()
		time.Sleep(61 * day)
		second := a.ServerCertificate().Leaf
		if second.Equal(first) {
			t.Error("not rotated after 61 days")
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * day)
		if !a.ServerCertificate().Leaf.Equal(second) {
			t.Error("a certificate that could not be written is in use: a restart would lose it")
		}
		cancel()
		<-done
	})
}
