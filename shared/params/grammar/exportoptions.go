package grammar

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// exportChoices are the options of exports(5) that an export may have: one of each list,
// the default first. async is not among them, because a power cut then loses data that a
// client was told is on the disk.
var exportChoices = [][]string{
	{"rw", "ro"},
	{"sync"},
	{"no_subtree_check"},
	{"insecure"},
	{allSquash, "root_squash", NoRootSquash},
}

// Options that others depend on, and those with a value.
const (
	allSquash = "all_squash"
	anonUID   = "anonuid"
	anonGID   = "anongid"
	security  = "sec"
)

// NoRootSquash is the option with which a client's root is the server's.
const NoRootSquash = "no_root_squash"

// nobody is the user and group that squashed clients act as where no other is given.
const nobody = 65534

// ExportOptions accepts export options: a closed list, each at most once, and none that
// contradicts another. It returns an error for each option, nil for one that is right.
func ExportOptions(options []string) []error {
	faults := make([]error, len(options))
	given := map[string]string{} // kind to option
	for i, option := range options {
		kind, err := exportOption(option)
		before, again := given[kind]
		switch {
		case err != nil:
			faults[i] = err
			continue
		case again && before == option:
			faults[i] = problem(option, "is given twice; leave one out")
			continue
		case again:
			faults[i] = problem(option, "contradicts %s; give one of them", before)
			continue
		}
		given[kind] = option
	}
	for i, option := range options {
		if faults[i] == nil {
			faults[i] = anonymous(option, given[allSquash])
		}
	}
	return faults
}

// exportOption is the kind of an option; options of one kind exclude each other.
func exportOption(option string) (kind string, err error) {
	for _, choices := range exportChoices {
		if slices.Contains(choices, option) {
			return choices[0], nil
		}
	}
	name, value, hasValue := strings.Cut(option, "=")
	switch {
	case option == "":
		return "", errEmpty
	case hasValue && (name == anonUID || name == anonGID):
		return name, accountID(option, value)
	case hasValue && name == security:
		return name, flavours(option, value)
	}
	return "", problem(option, "is not an export option that is offered; expected %s", offered())
}

func offered() string {
	return strings.Join(slices.Concat(exportChoices...), ", ") + ", anonuid=<uid>, anongid=<gid> or sec=sys|krb5|krb5i|krb5p"
}

// accountID accepts a user or group id as exportfs reads it: a signed number of 32 bits.
func accountID(option, value string) error {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n > math.MaxInt32 || strconv.FormatUint(n, 10) != value {
		return problem(option, "has no user or group id: expected a whole number from 0 to %d", math.MaxInt32)
	}
	return nil
}

// flavours accepts security flavours, separated by colons, the preferred one first.
func flavours(option, value string) error {
	var before []string
	for flavour := range strings.SplitSeq(value, ":") {
		if !slices.Contains([]string{"sys", "krb5", "krb5i", "krb5p"}, flavour) {
			return problem(option, "has no security flavour that is offered: expected sys, krb5, krb5i or krb5p, or several separated by colons")
		}
		if slices.Contains(before, flavour) {
			return problem(option, "names %s twice", flavour)
		}
		before = append(before, flavour)
	}
	return nil
}

// anonymous refuses an anonymous id that contradicts whom the export squashes.
func anonymous(option, squash string) error {
	name, _, hasValue := strings.Cut(option, "=")
	switch {
	case !hasValue || name == security:
	case squash == NoRootSquash:
		return problem(option, "contradicts %s, which maps no user to another; leave one out", NoRootSquash)
	case squash == "root_squash" && option == anonUID+"=0":
		return problem(option, "contradicts root_squash: it maps root to root; give no_root_squash if that is meant")
	}
	return nil
}

// CompleteExportOptions is the whole list for options that ExportOptions accepts: in a
// fixed order, with the default of each kind that is not given.
func CompleteExportOptions(options []string) []string {
	var complete []string
	for _, choices := range exportChoices {
		chosen := choices[0]
		for _, option := range options {
			if slices.Contains(choices, option) {
				chosen = option
			}
		}
		complete = append(complete, chosen)
	}
	// sec= comes last: what follows it is for its flavours alone.
	for _, name := range []string{anonUID, anonGID, security} {
		for _, option := range options {
			if strings.HasPrefix(option, name+"=") {
				complete = append(complete, option)
			}
		}
	}
	return complete
}

// AnonymousAccount is the user and group that squashed clients act as.
type AnonymousAccount struct{ UID, GID int }

// String is the account as chown writes it.
func (a AnonymousAccount) String() string { return fmt.Sprintf("%d:%d", a.UID, a.GID) }

// ExportAccount is the account that squashed clients of an export act as, and whether all
// that they write is written as that account (rw and all_squash), so that it must own the
// exported directory. The options are those that ExportOptions accepts, as exports(5)
// reads them: without rw an export is read only.
func ExportAccount(options []string) (account AnonymousAccount, owns bool) {
	account = AnonymousAccount{nobody, nobody}
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		id, err := strconv.Atoi(value)
		switch {
		case err != nil:
		case name == anonUID:
			account.UID = id
		case name == anonGID:
			account.GID = id
		}
	}
	return account, slices.Contains(options, "rw") && slices.Contains(options, allSquash)
}
