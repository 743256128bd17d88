package restore

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// everything is each thing that a node can ask for; all of it is refused.
func (w *controller) everything(m *machine, what string, problems ...string) {
	w.t.Helper()
	w.refused(what+" its configuration", m.asks(), problems...)
	w.refused(what+" its status", m.report(loopback.Converged(api.NodeConfig{})), problems...)
	_, err := m.format(api.FormatWanted, "")
	w.refused(what+" a format", err, problems...)
	w.refused(what+" a renewal", m.copy().renew(), problems...)
	w.refused(what+" an enrollment with its key", m.copy().enroll(), append(problems, api.ProblemRestoreUnconfirmed)...)
	other := m.copy()
	other.Key = testca.NewKey()
	w.refused(what+" an enrollment with another key", other.enroll(), append(problems, api.ProblemRestoreUnconfirmed)...)
}

func TestNothingIsLetInBeforeTheConfirmation(t *testing.T) {
	both(t, "unconfirmed", "after a restore no node is accepted, with certificate or join token, before an operator has confirmed its instance", func(w *controller, lost bool) {
		live, reenrolling := w.enrolled(storage), w.enrolled(worker)
		w.Must("node", "reenroll", worker)
		w.restored(w.backup(), lost)
		w.everything(live, "a live identity", api.ProblemRestoreUnconfirmed)
		w.refused("the permission to enroll again", reenrolling.enroll(), api.ProblemRestoreUnconfirmed)
		w.refused("a server that never enrolled", w.boot(spare).enroll(), api.ProblemRestoreUnconfirmed)
		if i := w.instance(); !i.Unconfirmed || i.Restored == nil || !w.Node(storage).Unconfirmed || w.Node(storage).LastSeenAt == nil {
			w.t.Errorf("the instance is %+v, its node %+v; want both unconfirmed, the instance with the backup that it is from, and the node seen", i.Restored, w.Node(storage))
		}
		w.confirm()
		w.allowed("the live identity after the confirmation", live.asks())
		w.allowed("its renewal", live.renew())
		w.allowed("the server that never enrolled", w.boot(spare).enroll())
		w.refused("a permission to enroll that may have been used since the backup", reenrolling.enroll(), api.ProblemRevoked)
	})
}

func TestARevokedNodeStaysOut(t *testing.T) {
	both(t, "revoked node", "a node that was revoked after the backup, and a server that was revoked before it enrolled, are refused", func(w *controller, lost bool) {
		node, other, early := w.enrolled(storage), w.enrolled(worker), w.boot(spare)
		file := w.backup()
		w.Must("node", "revoke", storage)
		w.Must("node", "revoke", spare)
		w.refused("the revoked node", node.asks(), api.ProblemRevoked)
		w.restored(file, lost)
		w.everything(node, "the revoked node asks for", api.ProblemRestoreUnconfirmed, api.ProblemRevoked)
		w.refused("the revoked server", early.enroll(), api.ProblemRestoreUnconfirmed, api.ProblemRevoked)
		if lost { // only the operator knows it
			w.Must("node", "revoke", storage)
			w.Must("node", "revoke", spare)
		}
		w.confirm()
		w.everything(node, "after the confirmation, the revoked node asks for", api.ProblemRevoked)
		w.refused("after the confirmation, the revoked server", early.enroll(), api.ProblemRevoked)
		w.allowed("the other node", other.asks())
	})
}

func TestANodeThatEnrolledAfterTheBackup(t *testing.T) {
	both(t, "enrolled after the backup", "a certificate from after the backup is accepted after the confirmation, and no other machine can enroll in its place", func(w *controller, lost bool) {
		file := w.backup()
		node := w.enrolled(storage)
		w.restored(file, lost)
		w.refused("before the confirmation, the node", node.asks(), api.ProblemRestoreUnconfirmed)
		w.confirm()
		thief := w.boot(storage)
		w.refused("a machine that has only user_data", thief.enroll(), api.ProblemIdentityLive)
		w.allowed("the node", node.asks())
	})
}

func TestANodeThatRenewedAfterTheBackup(t *testing.T) {
	both(t, "renewed after the backup", "after the confirmation the newest certificate is accepted, and no older one", func(w *controller, lost bool) {
		node := w.enrolled(storage)
		file := w.backup()
		first := node.copy()
		later(w.t)
		w.must(node.renew())
		second := node.copy()
		w.must(node.asks())
		later(w.t)
		w.must(node.renew())
		w.must(node.asks())
		w.restored(file, lost)
		w.refused("before the confirmation, the newest certificate", node.asks(), api.ProblemRestoreUnconfirmed)
		w.refused("before the confirmation, one in between", second.asks(), api.ProblemRestoreUnconfirmed)
		w.confirm()
		w.refused("the certificate of the backup", first.asks(), api.ProblemUnauthorized)
		w.refused("one in between", second.asks(), api.ProblemUnauthorized)
		w.allowed("the newest certificate", node.asks())
		w.allowed("its renewal", node.renew())
	})
}

func TestANodeThatWasReplacedAfterTheBackup(t *testing.T) {
	both(t, "replaced after the backup", "the identity from before a re-enrollment is refused after the restore too, once the new one has called", func(w *controller, lost bool) {
		old := w.enrolled(storage)
		file := w.backup()
		w.Must("node", "reenroll", storage)
		later(w.t)
		node := w.enrolled(storage)
		w.restored(file, lost)
		w.refused("before the confirmation, the new machine", node.asks(), api.ProblemRestoreUnconfirmed)
		w.confirm()
		w.refused("the old machine", old.asks(), api.ProblemUnauthorized)
		w.allowed("the new machine", node.asks())
	})
}
