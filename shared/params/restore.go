package params

import (
	"encoding/json"

	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// Restore is raw with the secrets of stored in the place of the placeholders that Redact has
// written for them. A secret goes back only to where it came from, so that nobody gets what
// is another's: all other members of its object must be as they are in stored; of a text
// with a secret in it, the rest of the text. An object in a list is compared with the one that has
// the same server, wherever that stands. All other placeholders stay, and Parse refuses them.
// It serves texts of additionalParams; what is not JSON is returned as it is.
func Restore(raw, stored json.RawMessage) json.RawMessage {
	now, broken := jsontree.Parse(raw)
	before, alsoBroken := jsontree.Parse(stored)
	if broken != nil || alsoBroken != nil {
		return raw
	}
	r := restorer{raw: raw, stored: stored}
	r.below(now, before)
	return append(r.out, raw[r.done:]...)
}

type restorer struct {
	raw, stored, out []byte
	done             int // how much of raw is in out
}

// below restores what now, a list or an object, contains.
func (r *restorer) below(now, before *jsontree.Node) {
	for _, item := range now.Items {
		if same := withServerOf(item, before); same != nil {
			r.below(item, same)
		}
	}
	for _, m := range now.Members {
		was := before.Get(m.Name)
		if was == nil {
			continue
		}
		public, secret := publicOf(was, m.Name)
		switch {
		case !secret:
			r.below(m.Value, was)
		case isText(m.Value, public) && (public != Redacted || othersUnchanged(m.Name, now, before)):
			r.out = append(append(r.out, r.raw[r.done:m.Value.Start]...), r.stored[was.Start:was.End]...)
			r.done = m.Value.End
		}
	}
}

// withServerOf is the one object of the list that has the server of item, nil if there is
// none, or more than one.
func withServerOf(item, list *jsontree.Node) (found *jsontree.Node) {
	server := item.Get("server")
	if server == nil || server.Kind != jsontree.String {
		return nil
	}
	for _, before := range list.Items {
		if was := before.Get("server"); was != nil && isText(was, server.Text) {
			if found != nil {
				return nil
			}
			found = before
		}
	}
	return found
}

// othersUnchanged reports whether two objects have the same members, but for one.
func othersUnchanged(but string, now, before *jsontree.Node) bool {
	if len(now.Members) != len(before.Members) {
		return false
	}
	for _, m := range now.Members {
		was := before.Get(m.Name)
		if was == nil || m.Name != but && !unchanged(m.Value, was, m.Name) {
			return false
		}
	}
	return true
}

// unchanged reports whether a value is what it was, or what Redact shows of that. name is the
// member that it is the value of.
func unchanged(now, before *jsontree.Node, name string) bool {
	if public, secret := publicOf(before, name); secret && isText(now, public) {
		return true
	}
	if now.Kind != before.Kind || now.Text != before.Text || len(now.Items) != len(before.Items) {
		return false
	}
	for i, item := range now.Items {
		if !unchanged(item, before.Items[i], name) {
			return false
		}
	}
	return othersUnchanged("", now, before)
}

func isText(n *jsontree.Node, text string) bool { return n.Kind == jsontree.String && n.Text == text }
