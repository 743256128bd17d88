// Package hostsfile edits the text of /etc/hosts: it keeps one block of lines that
// is nodehitch's, and everything outside of it byte for byte as it is. It reads and
// writes no file.
package hostsfile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Entry is one line: an address and the names that stand for it.
type Entry struct {
	Address netip.Addr
	Names   []string
}

// Set returns content with a block of exactly these entries, in their order, in the
// place of the block that is there or else at the end; without entries there is no
// block. Content that holds that already is returned as it is. An error is of an
// entry that is no line of /etc/hosts.
//
// Only whole blocks are nodehitch's. Of a damaged one, whose first or last line is
// missing, the other of them goes and what the new block says again; every other
// line stays, now outside, because it may be the owner's.
func Set(content []byte, entries []Entry) ([]byte, error) {
	wanted, err := linesOf(entries)
	if err != nil {
		return nil, err
	}
	f := parse(string(content))
	if f.holds(wanted) {
		return content, nil
	}
	return []byte(f.with(wanted)), nil
}

// Has says whether there is anything of nodehitch's in content, damaged or not.
func Has(content []byte) bool { return !parse(string(content)).holds(nil) }

// linesOf are the entries as the file has them, without the ends of lines.
func linesOf(entries []Entry) ([]string, error) {
	var lines []string
	for _, e := range entries {
		address := e.Address.String() // its zone may hold anything
		if !e.Address.IsValid() || notOneName(address) || len(e.Names) == 0 || slices.ContainsFunc(e.Names, notOneName) {
			return nil, fmt.Errorf("no line of /etc/hosts: address %q, names %q; one address and at least one name without white space or # are needed", address, e.Names)
		}
		lines = append(lines, address+"\t"+strings.Join(e.Names, " "))
	}
	return lines, nil
}

// notOneName: the file's reader would see none, more than one, or a comment.
func notOneName(name string) bool {
	isPart := func(r rune) bool { return r > ' ' && r < 0x7f && r != '#' }
	return name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isPart(r) })
}
