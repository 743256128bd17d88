// Package fault names what is wrong with a piece of input and where: one fault
// for each place, all of them at once, each with a JSON pointer (RFC 6901) from
// the root of the document that the user sent.
package fault

import (
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing wrong at one place of a document.
type Fault struct {
	// Pointer is the RFC 6901 JSON pointer of the place; "" is the whole document.
	Pointer string `json:"pointer"`
	// Message says what was found, what was expected and what to do. It never
	// repeats a secret's value.
	Message string `json:"message"`
}

// String is the fault on one line.
func (f Fault) String() string {
	if f.Pointer == "" {
		return f.Message
	}
	return f.Pointer + ": " + f.Message
}

// List is every fault of one document. As an error it prints one fault a line.
type List []Fault

// Error lists the faults, one on each line.
func (l List) Error() string {
	lines := make([]string, len(l))
	for i, f := range l {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Err is the list as an error, nil when nothing is wrong.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// StandAt is the list with all faults at one place, for a document that has no such
// places.
func (l List) StandAt(where At) List {
	for i := range l {
		l[i].Pointer = string(where)
	}
	return l
}

// In is the list with each place within a file that has a name.
func (l List) In(file string) List {
	for i := range l {
		l[i].Pointer = strings.TrimSuffix(file+":"+l[i].Pointer, ":")
	}
	return l
}

// AtOrBelow reports whether a fault is at this place, or within what is there.
func (l List) AtOrBelow(pointer string) bool {
	return slices.ContainsFunc(l, func(f Fault) bool { return f.Pointer == pointer || strings.HasPrefix(f.Pointer, pointer+"/") })
}

// At is a place in a document while it is being walked.
type At string

// Root is the whole document.
const Root At = ""

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// maxName is how much of a member's name a place repeats. Every name that is known
// anywhere is shorter; one that is not could fill an answer.
const maxName = 200

// Key is the member called name of the object at this place. A name that is far too long is
// cut off.
func (a At) Key(name string) At {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "…"
	}
	return a + "/" + At(escape.Replace(name))
}

// Index is the i-th element of the array at this place.
func (a At) Index(i int) At { return a + "/" + At(strconv.Itoa(i)) }

// Fault is a fault at this place.
func (a At) Fault(message string) Fault { return Fault{Pointer: string(a), Message: message} }
