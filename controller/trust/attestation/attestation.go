// Package attestation asks the cloud whether a machine that enrolls is the server that
// it says it is: Nova and Heat have to know the server as one of the instance's stack,
// and the machine has to read a nonce that only its own metadata service shows.
package attestation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/trust/enrollment"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Policy reports whether a nonce is asked for.
type Policy string

// The policies.
const (
	// IfAllowed accepts a server without the nonce if the credential may not write it.
	IfAllowed Policy = "if-allowed"
	// Required refuses then.
	Required Policy = "required"
	// Off asks for none and writes nothing.
	Off Policy = "off"
)

// attestationTimeout bounds how long an enrollment waits for the cloud; an agent waits 30 s for the
// controller.
const attestationTimeout = 20 * time.Second

// Cloud is what is asked of a cloud; *openstack.Cloud is one.
type Cloud interface {
	Name() string
	Project(ctx context.Context) (string, error)
	Stack(ctx context.Context, idOrName string) (openstack.Stack, error)
	Owns(ctx context.Context, s openstack.Stack, physicalID string) (bool, error)
	Server(ctx context.Context, id string) (openstack.Server, error)
	SetMetadata(ctx context.Context, serverID, key, value string) error
	DeleteMetadata(ctx context.Context, serverID, key string) error
}

// Nova is the enrollment.Attestor that asks the cloud. It fails closed: without a good
// answer of the cloud no server enrolls.
//
// An enrollment costs seven calls at most: the stack, the server, whether the stack owns
// it, the nonce's item written; then the server once more, perhaps whether the stack
// owns it, and the item deleted. A machine that asks again within seconds, or at the same
// time, costs none, whatever the answer was, so that a holder of the join token cannot
// make the controller a nuisance to the cloud.
//
// Fill the fields before the first call; they are not changed after it.
type Nova struct {
	Store *store.Store
	// Cloud is the cloud of an instance with this vimConnectionInfo, nil for none.
	Cloud func(ctx context.Context, vim json.RawMessage) (Cloud, error)
	// Nonce is the policy; IfAllowed when empty.
	Nonce Policy
	// SourceAddress has an enrollment come from one of the server's addresses.
	SourceAddress bool
	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// Log, slog.Default() when nil. It never sees a nonce.
	Log *slog.Logger
	// WithoutNonce counts a machine that is asked for no nonce, because none could be
	// written. May be nil.
	WithoutNonce func()

	once     sync.Once
	lookups  lookups
	nonces   nonces
	warned   sync.Map // names of clouds that take no nonce
	deleting sync.WaitGroup
	ending   context.Context // of deletions
	end      context.CancelFunc
}

// Attest returns how it verified that the machine is the server. If it could not, the error
// is an *enrollment.Refusal with one of the Event constants as its reason. Any other error
// is one of the store, or that of ctx.
func (n *Nova) Attest(ctx context.Context, node store.Node, req api.EnrollRequest, remote netip.Addr) (api.Attestation, error) {
	n.once.Do(n.begin)
	within, cancel := context.WithTimeout(ctx, attestationTimeout)
	defer cancel()
	proof, err := n.attest(within, node, req, remote)
	var refused *enrollment.Refusal
	if err != nil && ctx.Err() != nil && (!errors.As(err, &refused) || refused.Reason == EventCloud) {
		return "", ctx.Err() // the machine has hung up, which says nothing of the cloud
	}
	return proof, err
}

// attest is every check, within the time that there is.
func (n *Nova) attest(ctx context.Context, node store.Node, req api.EnrollRequest, remote netip.Addr) (api.Attestation, error) {
	place, err := n.placeOf(ctx, node.InstanceID)
	if err != nil {
		return "", err
	}
	if err := n.check(ctx, place, node.ID, remote); err != nil {
		return "", err
	}
	if n.Nonce == Off {
		return api.AttestedByNova, nil
	}
	return n.checkIdentityProof(ctx, place, node.ID, req.Nonce)
}

// Enrolled takes the nonce out of the server's metadata: it has done its work. That
// may fail; the item that is left then opens nothing.
func (n *Nova) Enrolled(node store.Node) {
	n.once.Do(n.begin)
	spent := n.nonces.spend(node.ID)
	if spent == nil {
		return
	}
	n.deleting.Add(1)
	go func() {
		defer n.deleting.Done()
		ctx, cancel := context.WithTimeout(n.ending, attestationTimeout)
		defer cancel()
		err := n.nonces.clear(ctx, node.ID, spent, func() error {
			place, err := n.placeOf(ctx, node.InstanceID)
			if err != nil {
				return err
			}
			return place.cloud.DeleteMetadata(ctx, node.ID, api.NonceKey)
		})
		if err != nil && !openstack.IsNotFound(err) {
			n.log().Warn("the nonce of a server that has enrolled is still in its Nova metadata; it is not valid any more", "node", node.ID, "item", api.NonceKey, "error", err)
		}
	}()
}

// Close gives up the deletions under way and waits for their end.
func (n *Nova) Close() {
	n.once.Do(n.begin)
	n.end()
	n.deleting.Wait()
}

func (n *Nova) begin() {
	n.ending, n.end = context.WithCancel(context.Background())
	n.lookups = newLookups(n.now)
	n.nonces = nonces{now: n.now, servers: map[string]*nonce{}}
}

// place is where the servers of an instance are.
type place struct {
	instanceID, stackID string
	cloud               Cloud
}

func (n *Nova) placeOf(ctx context.Context, instanceID string) (place, error) {
	var desired store.Desired
	err := n.Store.View(func(tx *store.Tx) error {
		instance, found, err := tx.Instances().Get(instanceID)
		if err == nil && found {
			desired, found, err = tx.Desired().Get(store.DesiredKey(instanceID, instance.DesiredVersion))
		}
		if err == nil && !found {
			err = fmt.Errorf("the instance %s has no desired state", instanceID)
		}
		return err
	})
	if err != nil {
		return place{}, err
	}
	vim, err := n.Store.Unseal(desired.VIMConnectionInfo)
	if err != nil {
		return place{}, fmt.Errorf("reading the VIM connections of instance %s: %w", instanceID, err)
	}
	cloud, err := n.Cloud(ctx, vim)
	switch {
	case err != nil:
		return place{}, noCloud(instanceID, err)
	case desired.StackID == "":
		return place{}, noStack(instanceID)
	}
	return place{instanceID: instanceID, stackID: desired.StackID, cloud: cloud}, nil
}

func (n *Nova) now() time.Time {
	if n.Now == nil {
		return time.Now()
	}
	return n.Now()
}

func (n *Nova) log() *slog.Logger {
	if n.Log == nil {
		return slog.Default()
	}
	return n.Log
}
