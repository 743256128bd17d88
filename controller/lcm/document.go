package lcm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// sealDocument is the stored form of a node's document, which may hold secrets.
func (s *Service) sealDocument(config api.NodeConfig) (store.Sealed, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("writing a node's document: %w", err)
	}
	return s.Store.Seal(text)
}

// NodeConfig is the document of a node and its digest.
func (s *Service) NodeConfig(_ context.Context, nodeID string) (config api.NodeConfig, digest string, err error) {
	node, err := s.node(nodeID)
	if err != nil {
		return config, "", err
	}
	config, err = s.openDocument(node)
	return config, node.Digest, err
}

func (s *Service) openDocument(n store.Node) (config api.NodeConfig, err error) {
	text, err := s.Store.Unseal(n.Config)
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		return config, fmt.Errorf("reading the document of node %s: %w", n.ID, err)
	}
	return config, nil
}

// NodeReads says whether the present document of the node names the file with this
// SHA-256.
func (s *Service) NodeReads(_ context.Context, nodeID, sha256 string) bool {
	node, err := s.node(nodeID)
	return err == nil && slices.Contains(node.Files, sha256)
}

func (s *Service) node(id string) (store.Node, error) {
	var node store.Node
	err := s.Store.View(func(tx *store.Tx) error {
		var found bool
		var err error
		node, found, err = tx.Nodes().Get(id)
		if err == nil && !found {
			return api.NewProblem(api.ProblemNotFound, fmt.Sprintf(
				"there is no node %s; a node is a server that the topology of a VNF instance names", id))
		}
		return err
	})
	return node, err
}
