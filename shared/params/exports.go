package params

import (
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

func (o *object) export() Export {
	if o == nil {
		return Export{}
	}
	e := Export{
		Directory: o.normal(keyExportDir, required, slashed(grammar.AbsolutePath)),
		To:        o.clients(),
		Options:   o.exportOptions(),
	}
	o.close()
	return e
}

// placed is a text and its place.
type placed struct {
	at   fault.At
	text string
}

// clients reads whom a directory is exported to: a list, or a text that has commas or
// blanks between several.
func (o *object) clients() []string {
	n, at := o.attribute(keyExportTo, required, jsontree.String, jsontree.List)
	if n == nil {
		return nil
	}
	given := o.r.texts(n, at)
	if n.Kind == jsontree.String {
		given = o.separated(n.Text, at)
	}
	if len(given) == 0 && len(n.Items) == 0 {
		o.r.fault(at, "is empty; expected a CIDR, an IP address, a host name, or * for every host")
	}
	var clients []string
	names := newFirsts()
	for i, g := range given {
		client, err := grammar.ExportClient(g.text)
		if err != nil {
			o.r.fault(g.at, "%v", err)
			continue
		}
		o.adviseOnClient(g, client)
		if _, again := names.seen(strings.ToLower(client.String()), i); !again {
			clients = append(clients, client.String())
		}
	}
	return clients
}

// separated takes a text of several clients apart. One with export options in it stays
// whole, so that it is refused whole.
func (o *object) separated(text string, at fault.At) []placed {
	if strings.ContainsAny(text, "()") {
		return []placed{{at, text}}
	}
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	if len(parts) > 1 {
		o.r.warn(at, "%s is taken as %d clients", grammar.Show(text), len(parts))
	}
	var given []placed
	for _, part := range parts {
		given = append(given, placed{at, part})
	}
	return given
}

// texts are the texts of a list, each with its place.
func (r *reader) texts(list *jsontree.Node, at fault.At) []placed {
	var texts []placed
	for i, item := range list.Items {
		if item.Kind != jsontree.String {
			r.wrongKind(at.Index(i), item.Kind, required, jsontree.String)
			continue
		}
		texts = append(texts, placed{at.Index(i), item.Text})
	}
	return texts
}

func (o *object) adviseOnClient(given placed, client grammar.Client) {
	network := client.Network
	if network.IsValid() && network != network.Masked() {
		o.r.warn(given.at, "%s has host bits set; taken as %s", network, network.Masked())
	} else {
		o.takenAs(given.at, given.text, client.String())
	}
	if network.IsValid() && network.Bits() == 0 || client.Name == grammar.Everybody {
		o.r.warn(given.at, "%s exports the directory to every address that can reach the VM; without sec=krb5, only the network keeps others away from it", client)
	}
}

// exportOptions reads the options of an export and completes them; nil if one is refused.
func (o *object) exportOptions() []string {
	n, at := o.attribute(keyOptions, optional, jsontree.List)
	if n == nil {
		return grammar.CompleteExportOptions(nil)
	}
	given := o.r.texts(n, at)
	options := make([]string, len(given))
	for i, g := range given {
		options[i] = g.text
	}
	refused := len(given) < len(n.Items)
	for i, err := range grammar.ExportOptions(options) {
		if err != nil {
			o.r.fault(given[i].at, "%v", err)
			refused = true
		}
	}
	if refused {
		return nil
	}
	o.adviseOnOptions(at, options)
	return grammar.CompleteExportOptions(options)
}

func (o *object) adviseOnOptions(at fault.At, options []string) {
	complete := grammar.CompleteExportOptions(options)
	if account, owns := grammar.ExportAccount(complete); owns && account.UID == 0 {
		o.r.warn(at, "makes every user of every client root of what is exported")
	}
	if slices.ContainsFunc(options, func(option string) bool { return strings.Contains(option, "krb5") }) {
		o.r.warn(at, "needs Kerberos on the VM and on each client (a keytab, rpc.gssd, rpc.svcgssd or gssproxy), which nodehitch does not set up")
	}
}

// checkExports wants each directory on a volume and sets which one it is. It finds
// exports that repeat or contradict each other, and those inside others.
func (o *object) checkExports(s *StorageServer) {
	o.placeExports(s)
	o.checkPairs(s.Exports)
	o.checkOwners(s.Exports)
	o.warnNested(s.Exports)
}

func (o *object) placeExports(s *StorageServer) {
	mounts := newFirsts()
	complete := len(s.Volumes) > 0
	var names []string
	for i, v := range s.Volumes {
		mounts.seen(v.MountTo, i)
		names = append(names, v.MountTo)
		complete = complete && v.MountTo != ""
	}
	for i := range s.Exports {
		e := &s.Exports[i]
		if e.Directory == "" {
			continue
		}
		volume, ok := mounts.at(e.Directory)
		if ok {
			e.MountTo = s.Volumes[volume].MountTo
		} else if complete {
			o.r.fault(o.at.Key(keyExports).Index(i).Key(keyExportDir), "%q is on no volume; it has to be, or lie under, a %s: %s",
				e.Directory, keyMountTo, listed(names))
		}
	}
}

// checkPairs finds the same directory exported to the same client twice.
func (o *object) checkPairs(exports []Export) {
	pairs := newFirsts()
	for i, e := range exports {
		for _, client := range e.To {
			if first, again := pairs.seen(e.Directory+" "+strings.ToLower(client), i); again && e.Directory != "" {
				o.r.fault(o.at.Key(keyExports).Index(i), "exports %q to %s, as element %d does already; leave one out", e.Directory, client, first)
			}
		}
	}
}

// checkOwners finds a directory that would need two owners.
func (o *object) checkOwners(exports []Export) {
	owned := newFirsts()
	for i, e := range exports {
		account, owns := grammar.ExportAccount(e.Options)
		if !owns {
			continue
		}
		first, again := owned.seen(e.Directory, i)
		if !again {
			continue
		}
		if other, _ := grammar.ExportAccount(exports[first].Options); other != account {
			o.r.fault(o.at.Key(keyExports).Index(i), "has all clients write to %q as %s, and element %d as %s; a directory has one owner: give both the same anonuid and anongid",
				e.Directory, account, first, other)
		}
	}
}

// warnNested warns about an exported directory inside another one, once for each.
func (o *object) warnNested(exports []Export) {
	directories := newFirsts()
	for i, e := range exports {
		if e.MountTo != "" {
			directories.seen(e.Directory, i)
		}
	}
	for i, e := range exports {
		if first, known := directories[e.Directory]; !known || first != i {
			continue
		}
		if outer, ok := directories.above(e.Directory); ok {
			o.r.warn(o.at.Key(keyExports).Index(i).Key(keyExportDir), "%q lies inside %q, which element %d exports: the clients of that export reach it too, with the options of that export",
				e.Directory, exports[outer].Directory, outer)
		}
	}
}
