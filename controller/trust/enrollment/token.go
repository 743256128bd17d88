package enrollment

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A join token is "<id>.<secret>": 80 random bits and 256 bits that the store's
// key makes of them, both in lower-case hexadecimal. The secret can so be shown
// again for a server that scale-out makes a year later, and a copy of the database
// without the key tells no token.
const (
	tokenIDBytes     = 10
	tokenSecretBytes = 32
)

// The purposes of the two MACs; part of what is on disk and in user_data.
const (
	purposeSecret = "join-token"
	purposeCheck  = "join-token-check"
)

// NewJoinToken gives the instance a join token and stores the instance in tx. The
// token that it had is void from then on.
func (s *Service) NewJoinToken(tx *store.Tx, instance *store.Instance) error {
	id := make([]byte, tokenIDBytes)
	rand.Read(id)
	instance.JoinTokenID = hex.EncodeToString(id)
	instance.JoinTokenMAC = s.tokenMAC(s.tokenSecret(instance.JoinTokenID))
	return tx.Instances().Put(instance.ID, *instance)
}

// JoinToken is the instance's join token. Treat it as a secret.
func (s *Service) JoinToken(_ context.Context, instanceID string) (string, error) {
	var instance store.Instance
	err := s.Store.View(func(tx *store.Tx) error {
		var found bool
		var err error
		instance, found, err = tx.Instances().Get(instanceID)
		if err == nil && !found {
			err = api.NewProblem(api.ProblemNotFound, fmt.Sprintf("no VNF instance %q", instanceID))
		}
		return err
	})
	if err != nil {
		return "", err
	}
	secret := s.tokenSecret(instance.JoinTokenID)
	if instance.JoinTokenID == "" || !hmac.Equal(s.tokenMAC(secret), instance.JoinTokenMAC) {
		return "", fmt.Errorf("the instance %s has no join token that this store's key can make", instanceID)
	}
	return instance.JoinTokenID + "." + hex.EncodeToString(secret), nil
}

func (s *Service) tokenSecret(id string) []byte { return s.Store.MAC(purposeSecret, []byte(id)) }

func (s *Service) tokenMAC(secret []byte) []byte { return s.Store.MAC(purposeCheck, secret) }

// instanceOf finds the instance of a token; ok is false for any that is not valid. A token is as old
// as its instance and serves all its servers: mayEnroll decides which of them.
// A token that was made up is refused without reading the store, so that it costs
// next to nothing.
func (s *Service) instanceOf(bearer string) (instanceID string, ok bool, err error) {
	id, secret := splitToken(bearer)
	if id == "" || !hmac.Equal(secret, s.tokenSecret(id)) {
		return "", false, nil
	}
	has := func(instance store.Instance) bool {
		return instance.JoinTokenID == id && hmac.Equal(s.tokenMAC(secret), instance.JoinTokenMAC)
	}
	err = s.Store.View(func(tx *store.Tx) error {
		// All servers of a stack come with one token, and stacks come together: the instance
		// with which the token was last seen is read first, so that not all instances are
		// read for each server, or for each stack.
		if last, known := s.seen.Load(id); known {
			instance, found, err := tx.Instances().Get(last.(string))
			if err != nil || found && has(instance) {
				instanceID, ok = instance.ID, err == nil
				return err
			}
		}
		instances, err := tx.Instances().All()
		for _, instance := range instances {
			s.seen.Store(instance.JoinTokenID, instance.ID)
			if has(instance) {
				instanceID, ok = instance.ID, true
			}
		}
		return err
	})
	return instanceID, ok, err
}

// splitToken returns nothing for what has not the form of a token.
func splitToken(token string) (id string, secret []byte) {
	id, text, _ := strings.Cut(token, ".")
	secret, err := hex.DecodeString(text)
	if err != nil || len(id) != 2*tokenIDBytes || len(secret) != tokenSecretBytes {
		return "", nil
	}
	return id, secret
}
