package openstack

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// members is an object of texts whose names may be written with underscores too, as
// older versions of Tacker do.
type members struct {
	at     fault.At
	values map[string]json.RawMessage
	names  map[string]string
	faults fault.List
}

func plainName(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }

func (m *members) read(raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		m.faults = append(m.faults, m.at.Fault("expected an object"))
		return
	}
	m.values, m.names = map[string]json.RawMessage{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		m.values[plainName(name)], m.names[plainName(name)] = object[name], name
	}
}

func (m *members) text(name string) string {
	raw, ok := m.values[plainName(name)]
	if !ok || string(raw) == "null" {
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		m.faults = append(m.faults, m.at.Key(m.names[plainName(name)]).Fault("expected a text"))
	}
	return s
}

// certificates is a text or a list of texts, each PEM or the base64 of PEM or DER, as
// one PEM.
func (m *members) certificates(name string) string {
	raw, ok := m.values[plainName(name)]
	if !ok || string(raw) == "null" {
		return ""
	}
	at := m.at.Key(m.names[plainName(name)])
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		var one string
		if json.Unmarshal(raw, &one) != nil {
			m.faults = append(m.faults, at.Fault("expected a certificate, or a list of them"))
			return ""
		}
		if list = []string{one}; one == "" {
			return ""
		}
	}
	var out strings.Builder
	for i, text := range list {
		certificate, ok := asPEM(text)
		if !ok {
			m.faults = append(m.faults, at.Fault(fmt.Sprintf("certificate %d is neither PEM nor base64 of it", i+1)))
			continue
		}
		out.WriteString(certificate)
	}
	return out.String()
}

func asPEM(text string) (string, bool) {
	if pool([]byte(text)) != nil {
		return text + "\n", true
	}
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return "", false
	}
	if pool(data) != nil {
		return string(data) + "\n", true
	}
	text = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: data}))
	return text, pool([]byte(text)) != nil
}
