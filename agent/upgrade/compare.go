package upgrade

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/shared/api"
)

// expectation is what the old build had reached for one section of the document: the new
// one has to reach it too if its document has the same section. The controller may give a
// newer build more sections, so the digest of the whole document tells less.
type expectation struct {
	Section string `json:"section"`
	SHA256  string `json:"sha256"`
	// Conditions are those of the section that were True.
	Conditions []string `json:"conditions"`
}

// expect returns what a pass has reached. No document asks for nothing.
func expect(doc *api.NodeConfig, conditions []api.Condition) ([]expectation, error) {
	sections, err := sectionsOf(doc)
	if err != nil {
		return nil, err
	}
	var reached []expectation
	for _, name := range api.Sections() {
		e := expectation{Section: name, SHA256: sections[name]}
		for _, c := range conditions {
			if c.Status == api.ConditionTrue && slices.Contains(api.ConditionsOf(name), c.Type) {
				e.Conditions = append(e.Conditions, c.Type)
			}
		}
		if len(e.Conditions) > 0 {
			reached = append(reached, e)
		}
	}
	return reached, nil
}

// worse is the first condition that was True for a section and is not any more, "" for none.
func worse(before []expectation, doc *api.NodeConfig, conditions []api.Condition) (string, error) {
	sections, err := sectionsOf(doc)
	if err != nil {
		return "", err
	}
	present := api.NodeStatus{Conditions: conditions}
	for _, e := range before {
		if sections[e.Section] != e.SHA256 {
			continue
		}
		for _, name := range e.Conditions {
			switch c := present.Condition(name); {
			case c == nil:
				return name + " is missing", nil
			case c.Status != api.ConditionTrue:
				return fmt.Sprintf("%s is %s: %s: %s", name, c.Status, c.Reason, c.Message), nil
			}
		}
	}
	return "", nil
}

// sectionsOf are the SHA-256 of the document's sections, by name.
func sectionsOf(doc *api.NodeConfig) (map[string]string, error) {
	content, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(content, &members); err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for name, text := range members {
		sum := sha256.Sum256(text)
		sums[name] = hex.EncodeToString(sum[:])
	}
	return sums, nil
}
