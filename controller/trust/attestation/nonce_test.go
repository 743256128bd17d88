package attestation_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/controller/trust/attestation"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What the package says of itself.
const (
	failureCounts = 5 * time.Second
	nonceLife     = 10 * time.Minute
	writeAgain    = time.Minute
)

func TestTwoMachinesClaimOneServer(t *testing.T) {
	w := newWorld(t)
	thief, good := w.boot(worker), w.boot(worker)
	shown := thief.asked()
	if again := good.asked(); again != shown {
		t.Fatal("the second who asks takes the first one's nonce away")
	}
	for _, guess := range []string{"00112233445566778899aabbccddeeff", shown[:31], shown + "0", shown[1:] + "0", "\x00"} {
		wantRefusal(t, thief.enroll(guess), api.ProblemNonceRequired, attestation.EventNonceWrong)
	}
	wantOK(t, good.enroll(shown))
	w.gone(worker)
	for _, nonce := range []string{"", shown} {
		if err := thief.enroll(nonce); err == nil || w.identity(worker).Attestation != api.AttestedByNonce {
			t.Errorf("the thief is in: %v", err)
		}
	}
}

// Both have read it: one is the server.
func TestOfTwoThatReadTheNonceOneEnrolls(t *testing.T) {
	w := newWorld(t)
	shown := w.boot(worker).asked()
	results := make(chan error, 8)
	for range cap(results) {
		m := w.boot(worker)
		go func() { results <- m.enroll(shown) }()
	}
	enrolled := 0
	for range cap(results) {
		if <-results == nil {
			enrolled++
		}
	}
	if enrolled != 1 {
		t.Errorf("%d machines are the server", enrolled)
	}
}

func TestTheNonceOfAnotherServer(t *testing.T) {
	w := newWorld(t)
	pod := w.boot(master).asked() // reads what the machine that it runs on is shown
	own := w.boot(worker).asked()
	wantRefusal(t, w.boot(worker).enroll(pod), api.ProblemNonceRequired, attestation.EventNonceWrong)
	if own == pod {
		t.Error("two servers have one nonce")
	}
}

func TestARestartBetweenChallengeAndAnswer(t *testing.T) {
	w := newWorld(t)
	m := w.boot(worker)
	before := m.asked()
	w.restart(attestation.IfAllowed)
	wantRefusal(t, m.enroll(before), api.ProblemNonceRequired, attestation.EventNonceWrong)
	after := w.nonce(worker)
	if after == before {
		t.Fatal("the nonce of before is still in force")
	}
	wantOK(t, m.enroll(after))
}

func TestANonceEnds(t *testing.T) {
	w := newWorld(t)
	m := w.boot(worker)
	before := m.asked()
	w.Clock.Advance(nonceLife - time.Second)
	if m.asked() != before {
		t.Error("it has ended early")
	}
	w.Clock.Advance(time.Second)
	wantRefusal(t, m.enroll(before), api.ProblemNonceRequired, attestation.EventNonceWrong)
	after := w.nonce(worker)
	if after == before {
		t.Fatal("the nonce is the old one")
	}
	wantOK(t, m.enroll(after))
}

// A stack update can take items out of the metadata that the template does not name.
func TestANonceThatWasTakenAwayIsWrittenAgain(t *testing.T) {
	w := newWorld(t)
	m := w.boot(worker)
	before := m.asked()
	w.cloud.Put(openstacktest.Server{ID: worker, Metadata: map[string]string{"role": "worker"}})
	w.Clock.Advance(writeAgain - time.Second)
	wantRefusal(t, m.enroll(""), api.ProblemNonceRequired, attestation.EventNonceAsked)
	if n := w.cloud.Calls()[openstacktest.SetMetadata]; n != 1 {
		t.Errorf("%d writes within a minute", n)
	}
	w.Clock.Advance(time.Second)
	if m.asked() != before || w.cloud.Metadata(worker)["role"] != "worker" {
		t.Errorf("the metadata is %v", w.cloud.Metadata(worker))
	}
	wantOK(t, m.enroll(before))
}

func TestWithoutPermissionToWrite(t *testing.T) {
	for name, forbid := range map[string]openstacktest.Fault{
		"no role":        {Status: http.StatusForbidden},
		"no access rule": {Status: http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cloud.Fail(openstacktest.SetMetadata, forbid)
			wantOK(t, w.boot(worker).enroll(""))
			wantOK(t, w.boot(master).enroll("00112233445566778899aabbccddeeff"))
			for _, id := range []string{worker, master} {
				if got := w.identity(id).Attestation; got != api.AttestedByNova {
					t.Errorf("attested %q", got)
				}
			}
			if n := w.counted()["without nonce"]; n != 2 {
				t.Errorf("%d counted", n)
			}
			if n := w.logged("enroll without a nonce"); n != 1 {
				t.Errorf("said %d times", n)
			}
			if n := w.cloud.Calls()[openstacktest.DeleteMetadata]; n != 0 {
				t.Errorf("%d items deleted", n)
			}
		})
	}
}

// A nonce that was written is wanted, whatever the credential may do later.
func TestPermissionTakenAwayIsNoWayAround(t *testing.T) {
	w := newWorld(t)
	m := w.boot(worker)
	shown := m.asked()
	w.cloud.Deny(openstacktest.SetMetadata)
	for range 3 {
		w.Clock.Advance(writeAgain)
		wantRefusal(t, w.boot(worker).enroll(""), api.ProblemNonceRequired, attestation.EventNonceAsked)
	}
	wantOK(t, m.enroll(shown))
}

// It is not asked for, and not written; what a machine brings of its own is nothing.
func TestWithoutANonce(t *testing.T) {
	w := newWorld(t)
	w.restart(attestation.Off)
	wantOK(t, w.boot(worker).enroll("00112233445566778899aabbccddeeff"))
	if got := w.identity(worker).Attestation; got != api.AttestedByNova {
		t.Errorf("attested %q", got)
	}
	if calls := w.cloud.Calls(); calls[openstacktest.SetMetadata]+calls[openstacktest.DeleteMetadata] != 0 {
		t.Errorf("called %v", calls)
	}
}
