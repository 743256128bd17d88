package pki

import (
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"time"
)

// Rotate makes what is missing and replaces what is due: the intermediate at half of its life;
// the server certificate at two thirds, when the names changed, or when it ends with an
// intermediate that was replaced. The root is made once and never replaced. A controller that
// only reads has only its server certificate to replace.
func (a *Authority) Rotate() error {
	a.rotation.Lock()
	defer a.rotation.Unlock()
	now := a.now()
	defer func() {
		if a.server != nil {
			a.checkClock(now, a.server.cert)
		}
	}()
	if a.readOnly {
		return a.ensureServer(now)
	}
	for _, step := range []func(time.Time) error{a.ensureRoot, a.ensureIntermediate, a.ensureServer, a.forgetIntermediates} {
		if err := step(now); err != nil {
			return err
		}
	}
	return nil
}

func (a *Authority) ensureRoot(now time.Time) error {
	if a.root != nil {
		if !now.Before(a.root.cert.NotAfter) {
			return fmt.Errorf("the root ended on %s: make a new authority in an empty directory and render user_data anew", date(a.root.cert.NotAfter))
		}
		if left := a.root.cert.NotAfter.Sub(now); left < intermediateLife {
			a.log.Warn("the root certificate ends soon; its pin is in the user_data of every server", "notAfter", a.root.cert.NotAfter)
		}
		return nil
	}
	template := newTemplate(now, rootLife, "nodehitch root")
	key, err := newKey()
	if err != nil {
		return err
	}
	authority(template, 1)
	p, err := sign(template, key, &pair{cert: template, key: key})
	if err != nil {
		return err
	}
	p.issuer = nil
	if err := a.kept.write(rootFile, p); err != nil {
		return err
	}
	a.set(func() { a.root = p })
	a.log.Info("root certificate created", "pin", a.Pin(), "notAfter", p.cert.NotAfter)
	return nil
}

func (a *Authority) ensureIntermediate(now time.Time) error {
	if len(a.intermediates) > 0 && a.issuer().key != nil && now.Before(dueAt(a.issuer().cert, 1, 2)) {
		return nil
	}
	if a.root.key == nil {
		return a.withoutRootKey(now)
	}
	template := newTemplate(now, intermediateLife, "nodehitch intermediate")
	key, err := newKey()
	if err != nil {
		return err
	}
	authority(template, 0)
	p, err := sign(template, key, a.root)
	if err != nil {
		return err
	}
	p.issuer = nil
	if err := a.kept.write(intermediateFile(p.cert), p); err != nil {
		return err
	}
	a.set(func() { a.intermediates = append(slices.Clone(a.intermediates), p) })
	a.log.Info("intermediate certificate created", "notAfter", p.cert.NotAfter)
	return nil
}

// withoutRootKey is for operators who keep the root's key elsewhere and bring it back once
// a year.
func (a *Authority) withoutRootKey(now time.Time) error {
	const what = "%s holds no private key, so no new intermediate can be signed: put the key back into it for the next start"
	if len(a.intermediates) > 0 && a.issuer().key != nil && now.Before(a.issuer().cert.NotAfter) {
		a.log.Warn(fmt.Sprintf(what, rootFile), "intermediateNotAfter", a.issuer().cert.NotAfter)
		return nil
	}
	return fmt.Errorf(what, rootFile)
}

func (a *Authority) ensureServer(now time.Time) error {
	if a.serverGood(now) {
		return nil
	}
	template := newTemplate(now, serverLife, "nodehitch controller")
	key, err := newKey()
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range a.names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	p, err := sign(template, key, a.issuer())
	if err != nil {
		return err
	}
	if err := a.own.write(serverFile, p); err != nil {
		return err
	}
	a.set(func() { a.server = p })
	a.log.Info("server certificate created", "names", a.names, "notAfter", p.cert.NotAfter)
	return nil
}

// serverGood reports whether the controller's own certificate can stay. If not, a new one is signed.
func (a *Authority) serverGood(now time.Time) bool {
	s := a.server
	if s == nil || s.key == nil || s.issuer == nil || !now.Before(dueAt(s.cert, 2, 3)) {
		return false
	}
	if s.issuer.CheckSignatureFrom(a.root.cert) != nil || s.cert.CheckSignatureFrom(s.issuer) != nil {
		return false
	}
	// Its issuer was near its end, and has been replaced.
	if s.cert.NotAfter.Equal(s.issuer.NotAfter) && !s.issuer.Equal(a.issuer().cert) {
		return false
	}
	has := slices.Clone(s.cert.DNSNames)
	for _, ip := range s.cert.IPAddresses {
		has = append(has, ip.String())
	}
	want := make([]string, len(a.names))
	for i, name := range a.names {
		want[i] = name
		if ip := net.ParseIP(name); ip != nil {
			want[i] = ip.String()
		}
	}
	slices.Sort(has)
	slices.Sort(want)
	return slices.Equal(has, want)
}

// forgetIntermediates drops the keys of intermediates that sign no more, and those
// intermediates under which no certificate can even renew any more.
func (a *Authority) forgetIntermediates(now time.Time) error {
	var keep []*pair
	for i, p := range a.intermediates {
		name := intermediateFile(p.cert)
		switch newest := i == len(a.intermediates)-1; {
		case newest:
		case now.After(p.cert.NotAfter.Add(RenewalGrace + NodeLife)):
			if err := a.kept.remove(name); err != nil {
				return fmt.Errorf("removing an intermediate that has ended: %w", err)
			}
			continue
		case p.key != nil:
			p = &pair{cert: p.cert}
			if err := a.kept.write(name, p); err != nil {
				return err
			}
		}
		keep = append(keep, p)
	}
	a.set(func() { a.intermediates = keep })
	return nil
}

// set publishes a change; forgetIntermediates does so on every start.
func (a *Authority) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
	a.rootPool, a.intermediatePool, a.verified = x509.NewCertPool(), x509.NewCertPool(), new(verified)
	a.rootPool.AddCert(a.root.cert)
	for _, p := range a.intermediates {
		a.intermediatePool.AddCert(p.cert)
	}
}

// dueAt is the point of a certificate's life after which it is replaced.
func dueAt(cert *x509.Certificate, numerator, denominator int64) time.Time {
	life := int64(cert.NotAfter.Sub(cert.NotBefore))
	return cert.NotBefore.Add(time.Duration(life / denominator * numerator))
}

// clockEvery is how often a wrong clock is logged: each request of each agent shows it.
const clockEvery = 10 * time.Minute

// checkClock logs that a certificate of this authority is of the future. Until the clock is
// right agents are refused; they try again and recover by themselves.
func (a *Authority) checkClock(now time.Time, certificate *x509.Certificate) {
	if !now.Before(certificate.NotBefore) {
		return
	}
	last, uptime := a.clockSaid.Load(), int64(time.Since(started))
	if last != 0 && uptime-last < int64(clockEvery) || !a.clockSaid.CompareAndSwap(last, uptime) {
		return
	}
	a.log.Error("the clock of this controller is before its certificates begin: agents are refused until it is right. Set the clock",
		"clock", now.UTC().Format(time.RFC3339), "notBefore", certificate.NotBefore.UTC().Format(time.RFC3339), "certificate", certificate.Subject.CommonName)
}

// started is a time of the monotonic clock, which nobody sets.
var started = time.Now()

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }
