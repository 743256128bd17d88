package tx

import "github.com/nodehitch/nodehitch/controller/store"

// InstanceNodes is the instance's nodes, ordered by id, also those that no topology names any
// more. A server that another instance has by now is not among them.
func (t *Tx) InstanceNodes() ([]store.Node, error) {
	var list []store.Node
	for _, id := range t.Instance.NodeIDs {
		n, found, err := t.Nodes().Get(id)
		if err != nil {
			return nil, err
		}
		if found && n.InstanceID == t.Instance.ID {
			list = append(list, n)
		}
	}
	return list, nil
}
