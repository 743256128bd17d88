package hostsfile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Conflict is an operator's line that gives a name of an entry another address. The resolver
// uses the first of two lines, hosts(5).
type Conflict struct {
	Line    int // counted from 1
	Name    string
	Address netip.Addr // what the line says
	Wanted  netip.Addr // what the entry says
}

func (c Conflict) String() string {
	return fmt.Sprintf("line %d gives %s the address %s, not %s", c.Line, c.Name, c.Address, c.Wanted)
}

// Conflicts are the lines outside nodehitch's block that give a name of an entry another
// address of the same family.
func Conflicts(content []byte, entries []Entry) []Conflict {
	f := parse(string(content))
	var found []Conflict
	for i := range f.lines {
		if slices.ContainsFunc(f.blocks, func(b span) bool { return b.first <= i && i <= b.last }) {
			continue
		}
		address, names := read(f.lines[i])
		for _, e := range entries {
			if address == e.Address.Unmap() || address.Is4() != e.Address.Unmap().Is4() || !address.IsValid() {
				continue
			}
			for _, name := range e.Names {
				if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
					found = append(found, Conflict{Line: i + 1, Name: name, Address: address, Wanted: e.Address})
				}
			}
		}
	}
	return found
}

// read parses a line as the resolver does; the address is invalid if the line has none.
func read(line string) (netip.Addr, []string) {
	text, _, _ := strings.Cut(line, "#")
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return netip.Addr{}, nil
	}
	address, err := netip.ParseAddr(fields[0])
	if err != nil {
		return netip.Addr{}, nil
	}
	return address.Unmap(), fields[1:] // as the resolver does
}
