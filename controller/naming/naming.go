// Package naming checks what people call a VNF instance: its name and its labels.
package naming

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodehitch/nodehitch/shared/fault"
)

const (
	// mostCharacters of a name are as many as Tacker allows.
	mostCharacters = 255
	mostLabels     = 64
)

// Check is the faults of a name and of labels, each nil if the request has none. A name is
// printable text, because Tacker's is; a label is what Kubernetes takes for one.
func Check(name *string, labels map[string]string) (faults fault.List) {
	if name != nil {
		if wrong := wrongName(*name); wrong != "" {
			faults = append(faults, fault.Root.Key("name").Fault(wrong))
		}
	}
	at := fault.Root.Key("labels")
	if n := len(labels); n > mostLabels {
		faults = append(faults, at.Fault(fmt.Sprintf("has %d labels, expected at most %d", n, mostLabels)))
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		for _, wrong := range slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key])) {
			faults = append(faults, at.Key(key).Fault(fmt.Sprintf("is no label of Kubernetes: found %.70q = %.70q: %s", key, labels[key], wrong)))
		}
	}
	return faults
}

func wrongName(name string) string {
	unprintable := strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	switch n := utf8.RuneCountInString(name); {
	case n > mostCharacters:
		return fmt.Sprintf("has %d characters, expected at most %d", n, mostCharacters)
	case unprintable >= 0:
		return fmt.Sprintf("found %q, whose byte %d begins no printable character; expected printable text", name, unprintable)
	case strings.TrimSpace(name) != name:
		return fmt.Sprintf("found %q, expected no space at its beginning and end", name)
	}
	return ""
}
