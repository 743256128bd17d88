package storage

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

// opposites are the options of exports(5) that come in pairs, the default first.
var opposites = [][2]string{
	{"sync", "async"}, {"wdelay", "no_wdelay"}, {"hide", "nohide"}, {"nocrossmnt", "crossmnt"},
	{"no_subtree_check", "subtree_check"}, {"secure_locks", "insecure_locks"}, {"acl", "no_acl"},
	{"ro", "rw"}, {"secure", "insecure"}, {"root_squash", "no_root_squash"}, {"no_all_squash", "all_squash"},
	{"no_pnfs", "pnfs"}, {"no_security_label", "security_label"},
}

// synonyms of options.
var synonyms = map[string]string{"auth_nlm": "secure_locks", "no_auth_nlm": "insecure_locks", "mp": "mountpoint"}

// defaults are the options with a default value.
var defaults = map[string]string{"anonuid": "65534", "anongid": "65534", "sec": "sys"}

// effective is the meaning of a list of options, with all defaults.
func effective(options []string) map[string]string {
	meaning := maps.Clone(defaults)
	for _, pair := range opposites {
		meaning[pair[0]] = "yes"
	}
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		if s := synonyms[name]; s != "" {
			name = s
		}
		i := slices.IndexFunc(opposites, func(pair [2]string) bool { return pair[0] == name || pair[1] == name })
		switch {
		case i >= 0 && name == opposites[i][0]:
			meaning[name] = "yes"
		case i >= 0:
			meaning[opposites[i][0]] = "no"
		default:
			meaning[name] = value
		}
	}
	return meaning
}

// sameOptions compares desired options with those that exportfs reports. Without the
// kernel's server (no /proc/fs/nfsd) exportfs does not report secure and insecure; then
// these are not compared.
func sameOptions(wanted, reported []string) bool {
	a, b := effective(wanted), effective(reported)
	if !slices.Contains(reported, "secure") && !slices.Contains(reported, "insecure") {
		delete(a, "secure")
		delete(b, "secure")
	}
	return maps.Equal(a, b)
}

// served reports whether one of the reported entries is this one.
func (s *steps) served(ctx context.Context, wanted entry, reported []host.Export) bool {
	return slices.ContainsFunc(reported, func(e host.Export) bool {
		return e.Directory == wanted.directory && sameOptions(wanted.options, e.Options) && s.sameClient(ctx, wanted.client, e.Client)
	})
}

// sameClient: exportfs reports a host by its canonical name, a network as given.
func (s *steps) sameClient(ctx context.Context, wanted, reported string) bool {
	if strings.EqualFold(wanted, reported) {
		return true
	}
	if strings.Contains(wanted, "/") || strings.Contains(reported, "/") {
		a, errA := netip.ParsePrefix(wanted)
		b, errB := netip.ParsePrefix(reported)
		return errA == nil && errB == nil && a.Masked() == b.Masked()
	}
	return s.Host.NFS.SameHost(ctx, wanted, reported)
}
