package certificate_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/ui/certificate"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const name = "nodehitch.example"

// world is an authority that browsers know, and the files of a certificate.
type world struct {
	t         testing.TB
	authority testca.Authority
	log       bytes.Buffer
	now       time.Time
	o         certificate.Options
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, authority: testca.Root(t, "an authority that browsers know"), now: time.Now()}
	dir := t.TempDir()
	w.o = certificate.Options{Names: []string{name}, File: filepath.Join(dir, "chain.pem"), Key: filepath.Join(dir, "key.pem"),
		Now: func() time.Time { return w.now }, Log: slog.New(slog.NewTextHandler(&w.log, nil))}
	return w
}

// issue makes a certificate for the names.
func (w *world) issue(names ...string) tls.Certificate {
	w.t.Helper()
	return w.authority.Server(w.t, w.now.Add(90*24*time.Hour), names...)
}

// put writes a file whose time is another one than that of the file before.
func (w *world) put(path string, content []byte) {
	w.t.Helper()
	before, _ := os.Stat(path)
	w.must(os.WriteFile(path, content, 0o600))
	if now, err := os.Stat(path); err == nil && before != nil && now.ModTime().Equal(before.ModTime()) {
		w.must(os.Chtimes(path, time.Time{}, before.ModTime().Add(time.Second)))
	}
}

func (w *world) putChain(c tls.Certificate) {
	w.t.Helper()
	var text []byte
	for _, der := range c.Certificate {
		text = append(text, testca.Encode(der)...)
	}
	w.put(w.o.File, text)
}

func (w *world) putKey(c tls.Certificate) {
	w.t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	w.must(err)
	w.put(w.o.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) open() *certificate.Certificate {
	w.t.Helper()
	c, err := certificate.Open(w.o)
	w.must(err)
	return c
}

func TestTheNameChoosesTheCertificate(t *testing.T) {
	w := newWorld(t)
	mine := w.issue(name)
	w.putChain(mine)
	w.putKey(mine)
	c := w.open()
	for asked, want := range map[string]bool{name: true, strings.ToUpper(name): true, "": false, "other.example": false, "x." + name: false} {
		if got := c.For(&tls.ClientHelloInfo{ServerName: asked}); (got != nil) != want || want && !bytes.Equal(got.Certificate[0], mine.Certificate[0]) {
			t.Errorf("%q gets it: %v, want %v", asked, got != nil, want)
		}
	}
}

// Files that were joined without a line break, as `cat` joins them: browsers need each
// certificate of the chain.
func TestAChainThatIsJoinedIsServedWhole(t *testing.T) {
	w := newWorld(t)
	mine := w.issue(name)
	chain := testca.Encode(mine.Certificate[0])
	for _, above := range []string{"an intermediate", "another one"} {
		chain = append(bytes.TrimSpace(chain), testca.Root(t, above).PEM()...)
	}
	w.put(w.o.File, append([]byte("\ufeff"), chain...))
	w.putKey(mine)
	if got := w.open().For(&tls.ClientHelloInfo{ServerName: name}); len(got.Certificate) != 3 {
		t.Errorf("a browser gets %d certificates, want 3", len(got.Certificate))
	}
}

func TestARenewedCertificateIsTakenOnceItIsWhole(t *testing.T) {
	w := newWorld(t)
	first, second := w.issue(name), w.issue(name)
	w.putChain(first)
	w.putKey(first)
	c := w.open()
	serves := func(when string, want tls.Certificate) {
		t.Helper()
		for range 2 {
			if got := c.For(&tls.ClientHelloInfo{ServerName: name}); !bytes.Equal(got.Certificate[0], want.Certificate[0]) {
				t.Errorf("%s: another certificate is served", when)
			}
		}
	}
	serves("at first", first)
	w.putChain(second)
	serves("with the key of before", first)
	w.putKey(second)
	serves("with its key", second)
	w.must(os.Remove(w.o.File))
	serves("without its file", second)
	w.putChain(w.issue("other.example"))
	serves("with a certificate for another name", second)
	w.putChain(first)
	w.putKey(first)
	serves("with the first one again", first)
	if errors := strings.Count(w.log.String(), "level=ERROR"); errors != 3 {
		t.Errorf("%d errors are logged, want one for each bad state:\n%s", errors, w.log.String())
	}
}

func TestWhatIsNoCertificateIsRefused(t *testing.T) {
	for what, c := range map[string]struct {
		damage func(w *world)
		says   []string
	}{
		"no file":            {func(w *world) { w.must(os.Remove(w.o.File)) }, []string{"chain.pem", "no such file"}},
		"no key":             {func(w *world) { w.must(os.Remove(w.o.Key)) }, []string{"key.pem", "no such file"}},
		"an open key":        {func(w *world) { w.must(os.Chmod(w.o.Key, 0o644)) }, []string{"key.pem", "0644", "chmod 0640"}},
		"no PEM":             {func(w *world) { w.put(w.o.File, []byte("x")) }, []string{"chain.pem", "expected PEM"}},
		"another's key":      {func(w *world) { w.putKey(w.issue(name)) }, []string{"key.pem", "the key of that certificate"}},
		"for another name":   {func(w *world) { other := w.issue("other.example"); w.putChain(other); w.putKey(other) }, []string{name, "uiCertificate.names"}},
		"for too few names":  {func(w *world) { w.o.Names = append(w.o.Names, "second.example") }, []string{"second.example"}},
		"an expired one":     {func(w *world) { w.now = w.now.Add(91 * 24 * time.Hour) }, nil},
		"nothing is damaged": {func(*world) {}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			good := w.issue(name)
			w.putChain(good)
			w.putKey(good)
			c.damage(w)
			_, err := certificate.Open(w.o)
			if (err != nil) != (c.says != nil) {
				t.Fatalf("got %v", err)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if expired := what == "an expired one"; strings.Contains(w.log.String(), "has expired") != expired {
				t.Errorf("the log says %q", w.log.String())
			}
		})
	}
}
