package params

import (
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// placeholders refuses every text that Redact writes in the place of a secret, and that
// Restore has left: in force it would replace the secret.
func (r *reader) placeholders(n *jsontree.Node, at fault.At) {
	for _, place := range placeholders(n, maxListed) {
		r.fault(at+place, "holds %q, the placeholder of a secret in an answer, for which none is kept; send the secret itself", Redacted)
	}
}

// placeholders is the places, given from n, of at most limit such texts at and below n.
func placeholders(n *jsontree.Node, limit int) []fault.At {
	if n.Kind == jsontree.String && (n.Text == Redacted || strings.Contains(n.Text, Redacted+"@")) {
		return []fault.At{fault.Root}
	}
	var places []fault.At
	for i, item := range n.Items {
		if len(places) == limit {
			return places
		}
		for _, place := range placeholders(item, limit-len(places)) {
			places = append(places, fault.Root.Index(i)+place)
		}
	}
	for _, m := range n.Members {
		if len(places) == limit {
			return places
		}
		for _, place := range placeholders(m.Value, limit-len(places)) {
			places = append(places, fault.Root.Key(m.Name)+place)
		}
	}
	return places
}
