package api

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/netip"
	"os"
	"time"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/event"
	"github.com/nodehitch/nodehitch/controller/files"
	"github.com/nodehitch/nodehitch/controller/node"
	"github.com/nodehitch/nodehitch/controller/notify"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// The services behind the routes. Every error that is a *Problem is the answer;
// any other is logged and answered as an internal error that says nothing.
type (
	// Instances are VNF instances and their desired parameters.
	Instances interface {
		// PutInstance and DeleteInstance do nothing unless the conditions hold for the instance
		// as it is (nil for none) until they have done it.
		PutInstance(ctx context.Context, id string, spec wire.InstanceSpec, conditions ...func(now *wire.Instance) error) (instance wire.Instance, created bool, err error)
		// PlanInstance is what PutInstance would change.
		PlanInstance(ctx context.Context, id string, spec wire.InstanceSpec) (wire.InstancePlan, error)
		GetInstance(ctx context.Context, id string) (wire.Instance, error)
		ListInstances(ctx context.Context) ([]wire.Instance, error)
		DeleteInstance(ctx context.Context, id string, conditions ...func(now *wire.Instance) error) error
		// ClusterAccess is how a VIM uses the instance's cluster; not-found until it is known.
		ClusterAccess(ctx context.Context, id string) (wire.ClusterAccess, error)
		// KeepSecrets is additionalParams with the instance's secrets for their placeholders,
		// where they are kept.
		KeepSecrets(id string, additionalParams json.RawMessage) (json.RawMessage, error)
		// ConfirmInstance lets the nodes of a restored instance in again.
		ConfirmInstance(ctx context.Context, id string) (wire.Instance, error)
		// FileStored reconciles the instance again after a package file has arrived.
		FileStored(ctx context.Context, id, path string) error
	}
	// Operations are LCM operations.
	Operations interface {
		PostOperation(ctx context.Context, instanceID string, r wire.OperationRequest) (wire.Operation, error)
		GetOperation(ctx context.Context, instanceID string, sequence int64) (wire.Operation, error)
		// CancelOperation ends an operation before its deadline; who is kept with it.
		CancelOperation(ctx context.Context, instanceID string, sequence int64, who string) (wire.Operation, error)
		// ListOperations lists the newest first; of all instances for "".
		ListOperations(ctx context.Context, instanceID string) ([]wire.Operation, error)
	}
	// Nodes are VMs, their configuration and their status.
	Nodes interface {
		// ListNodes lists the nodes of one instance, of every one for ""; those that left
		// more than a day ago only if all are wanted.
		ListNodes(ctx context.Context, instanceID string, all bool) ([]wire.Node, error)
		GetNode(ctx context.Context, id string) (wire.Node, error)
		// NodeVersion is what a poll of the node, with this agent, is compared with.
		NodeVersion(ctx context.Context, id string, agent wire.Agent) (node.Version, error)
		// Polled is NodeVersion for an agent that says this of itself.
		Polled(ctx context.Context, id string, agent wire.Agent) (node.Version, error)
		NodeConfig(ctx context.Context, id string) (config wire.NodeConfig, digest string, err error)
		ReportStatus(ctx context.Context, id string, status wire.NodeStatus) error
		// Seen notes that the node has called just now.
		Seen(id string)
		// NodeReads reports whether the node's configuration names the file.
		NodeReads(ctx context.Context, id, sha256 string) bool
	}
	// Agents are the agents that the controller carries, and the nodes' upgrade to them.
	Agents interface {
		// Open opens the agent for an architecture, as uname -m prints it too; the caller closes
		// it.
		Open(arch string) (*os.File, wire.WantedAgent, error)
		Rollout(ctx context.Context) (wire.AgentRollout, error)
		// Upgrade begins the rollout of a version, of the controller's own for "", or continues it.
		Upgrade(ctx context.Context, version, who string) (wire.AgentRollout, error)
		Pause(ctx context.Context, who string) (wire.AgentRollout, error)
		// IsNews reports whether the node was not told the agent yet, as far as is known; Told
		// notes that it was.
		IsNews(nodeID string, wanted wire.WantedAgent) bool
		Told(nodeID string, wanted wire.WantedAgent)
	}
	// Volumes are Cinder volumes and the permits to format them.
	Volumes interface {
		List(ctx context.Context) ([]wire.Volume, error)
		Get(ctx context.Context, id string) (wire.Volume, error)
		Adopt(ctx context.Context, id, filesystemUUID string) (wire.Volume, error)
		Reformat(ctx context.Context, id, confirm string) (wire.Volume, error)
		Report(ctx context.Context, nodeID, volumeID string, r wire.FormatReport) (wire.FormatPermit, error)
	}
	// Enrollment gives identities to nodes and takes them away.
	Enrollment interface {
		JoinToken(ctx context.Context, instanceID string) (string, error)
		Enroll(ctx context.Context, joinToken string, r wire.EnrollRequest, remote netip.Addr) (wire.IssuedCertificate, error)
		Renew(ctx context.Context, nodeID, serial string, r wire.CertificateRequest) (wire.IssuedCertificate, error)
		// Authenticate is the identity that the peer has proven; renewal accepts an
		// expired certificate for as long as it may be renewed.
		Authenticate(ctx context.Context, peer []*x509.Certificate, renewal bool) (nodeID, serial string, err error)
		Revoke(ctx context.Context, nodeID, why string) error
		Reenroll(ctx context.Context, nodeID string) error
	}
	// Tokens are the API tokens.
	Tokens interface {
		Create(ctx context.Context, r wire.TokenRequest) (wire.NewToken, error)
		List(ctx context.Context) ([]wire.Token, error)
		Revoke(ctx context.Context, id string) error
		// Confirm makes a restored token good again.
		Confirm(ctx context.Context, id string) (wire.Token, error)
		Verify(ctx context.Context, bearer string) (wire.Token, error)
	}
	// Files are the files of VNF packages.
	Files interface {
		Put(ctx context.Context, u files.Request) (files.Stored, error)
		Open(ctx context.Context, instanceID, path string) (file *os.File, sha256 string, err error)
		OpenBlob(ctx context.Context, sha256 string) (*os.File, error)
		// Delete deletes a file whose instance does not exist.
		Delete(ctx context.Context, instanceID, path string) error
		// Collect removes the content that no record names any more.
		Collect(ctx context.Context) error
	}
	// Events are what has happened.
	Events interface {
		// List is the events that are asked for and the sequence behind which to continue.
		List(q event.Query) (wire.EventList, error)
	}
	// Backups are copies of the state.
	Backups interface {
		// Take makes a copy as of now; the caller closes it.
		Take(ctx context.Context) (*backup.Copy, error)
	}
	// Replicas are the controllers that share the store.
	Replicas interface {
		// List is those that are alive, ordered by their ids; none of a store of this controller's own.
		List(ctx context.Context) ([]wire.Replica, error)
	}
	// Metrics is what the API counts.
	Metrics interface {
		Answered(operation string, status int, took time.Duration)
		// PollHeld counts a long poll that is held (+1) and let go (-1).
		PollHeld(delta int)
	}
	// Changes wakes long polls.
	Changes interface {
		Poll(ctx context.Context, key string, check func() (done bool, err error)) error
	}
)

var _ Changes = (*notify.Hub)(nil)
