// Package hostsfile edits the text of /etc/hosts: it keeps one block of lines that is
// nodehitch's. Everything outside the block stays byte for byte the same. It reads and
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

// Set returns content with a block of exactly these entries, in order. The block replaces an
// existing one or is added at the end; without entries there is no block. Content that is
// already right is returned unchanged. An entry that is no line of /etc/hosts is an error.
//
// Only complete blocks are nodehitch's. If the first or last line of a block is missing, Set
// removes the other marker and the lines that the new block repeats. All other lines stay,
// now outside the block, because they may be the operator's.
func Set(content []byte, entries []Entry) ([]byte, error) {
	wanted, err := linesOf(entries)
	if err != nil {
		return nil, err
	}
	f := parse(string(content))
	if f.contains(wanted) {
		return content, nil
	}
	return []byte(f.with(wanted)), nil
}

// Has reports whether content has any line of nodehitch, complete or damaged.
func Has(content []byte) bool { return !parse(string(content)).contains(nil) }

// linesOf are the entries as lines of the file, without newlines.
func linesOf(entries []Entry) ([]string, error) {
	var lines []string
	for _, e := range entries {
		address := e.Address.String() // its zone may contain anything
		if !e.Address.IsValid() || notOneName(address) || len(e.Names) == 0 || slices.ContainsFunc(e.Names, notOneName) {
			return nil, fmt.Errorf("no line of /etc/hosts: address %q, names %q; one address and at least one name without white space or # are needed", address, e.Names)
		}
		lines = append(lines, address+"\t"+strings.Join(e.Names, " "))
	}
	return lines, nil
}

// notOneName reports whether a reader of the file would see no name, several, or a comment.
func notOneName(name string) bool {
	isPart := func(r rune) bool { return r > ' ' && r < 0x7f && r != '#' }
	return name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isPart(r) })
}
