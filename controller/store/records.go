package store

import (
	"encoding/json"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// Instance is a VNF instance. What it should be is in Desired[DesiredVersion].
type Instance struct {
	ID string `json:"id"`
	// Name and Labels are for people: they change no node's document.
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`

	Kind  api.VNFKind       `json:"kind"`
	State api.InstanceState `json:"state"`
	// DesiredVersion points to the version in force; taking an operation back is
	// setting it to an older one. LastVersion is the newest ever made.
	DesiredVersion int64 `json:"desiredVersion"`
	LastVersion    int64 `json:"lastVersion"`
	// LastSequence is the newest operation. ProcessingSequence is the one in progress (0:
	// none), so there is at most one. AwaitingEndSequence is the START that changed the
	// desired state and whose END has not come yet (0: none).
	LastSequence        int64 `json:"lastSequence,omitempty"`
	ProcessingSequence  int64 `json:"processingSequence,omitempty"`
	AwaitingEndSequence int64 `json:"awaitingEndSequence,omitempty"`
	// NodeIDs and VolumeIDs are all that the instance has a record of, ordered, also
	// those that its topology no longer names.
	NodeIDs   []string `json:"nodeIds,omitempty"`
	VolumeIDs []string `json:"volumeIds,omitempty"`
	// CarriedOver is what the last plan decided and the next one keeps.
	CarriedOver CarriedOver `json:"carriedOver,omitzero"`
	// ClusterSecret is what the secrets of the cluster's members are derived from; empty until
	// a plan first needs it. ClusterFacts is JSON of api.ClusterFacts: what the master that
	// speaks for the cluster has reported. Both end with the cluster.
	ClusterSecret Sealed `json:"clusterSecret,omitempty"`
	ClusterFacts  Sealed `json:"clusterFacts,omitempty"`

	// Epoch is the life of the state in which an operator has confirmed the instance,
	// or in which it was made. In any other its nodes are refused.
	Epoch int64 `json:"epoch,omitempty"`

	JoinTokenID  string    `json:"joinTokenId"`
	JoinTokenMAC []byte    `json:"joinTokenMac"`
	CreatedAt    time.Time `json:"createdAt"`
	UpdatedAt    time.Time `json:"updatedAt"`
}

// Title is what a sentence calls the instance.
func (i Instance) Title() string {
	if i.Name == "" {
		return "VNF instance " + i.ID
	}
	return "VNF instance " + i.Name + " (" + i.ID + ")"
}

// CarriedOver is plan.CarriedOver: what must not change with each report of a node.
type CarriedOver struct {
	Owner      string   `json:"ownerMaster,omitempty"`
	Served     string   `json:"servedExports,omitempty"`
	Registered bool     `json:"persistentVolumesRegistered,omitempty"`
	Members    []string `json:"memberMasters,omitempty"`
	Unproven   []string `json:"unprovenMembers,omitempty"`
	Initialize bool     `json:"initializeCluster,omitempty"`
	Endpoint   string   `json:"clusterEndpoint,omitempty"`

	MasterVersions map[string]string `json:"masterVersions,omitempty"`
	Wave           []string          `json:"upgradedMembers,omitempty"`
	Paused         string            `json:"pausedUpgrade,omitempty"`
	Renews         string            `json:"renewingMaster,omitempty"`

	VolumeServer      string            `json:"volumeServer,omitempty"`
	VolumeServerShown string            `json:"volumeServerShown,omitempty"`
	VolumeMasters     []string          `json:"volumeMasters,omitempty"`
	VolumeIDs         map[string]string `json:"volumeIds,omitempty"`
	ClientRecorder    string            `json:"clientRecorder,omitempty"`
	RegisteredAt      []string          `json:"registeredAt,omitempty"`
}

// Desired is one version of an instance's desired state. It never changes.
type Desired struct {
	InstanceID string `json:"instanceId"`
	Version    int64  `json:"version"`
	// StackID is the Heat stack, by the name that it was given while no such stack has
	// been found. StackName is that name once it has.
	StackID           string        `json:"stackId,omitempty"`
	StackName         string        `json:"stackName,omitempty"`
	AdditionalParams  Sealed        `json:"additionalParams"`
	VIMConnectionInfo Sealed        `json:"vimConnectionInfo,omitempty"`
	Topology          *api.Topology `json:"topology,omitempty"`
	// WithdrawPersistentVolumes: they are to be absent, until the END of the operation
	// that takes their storage server away.
	WithdrawPersistentVolumes bool `json:"withdrawPersistentVolumes,omitempty"`
	// Leaving are the ids of the servers that are to leave the cluster, ordered, until the END
	// of the operation that takes them away. Force: even if the cluster does not let them.
	Leaving []string `json:"leaving,omitempty"`
	Force   bool     `json:"force,omitempty"`
	// OperationID is the operation that made this version, "" for a PUT.
	OperationID string    `json:"operationId,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Withdraws reports whether something is to leave the cluster, until the END of an operation.
func (d Desired) Withdraws() bool { return d.WithdrawPersistentVolumes || len(d.Leaving) > 0 }

// WithoutWithdrawal is the same with nothing that is to leave the cluster.
func (d Desired) WithoutWithdrawal() Desired {
	d.WithdrawPersistentVolumes = false
	d.Leaving, d.Force = nil, false
	return d
}

// Node is a VM that the topology of an instance names, or named.
type Node struct {
	ID         string   `json:"id"`
	InstanceID string   `json:"instanceId"`
	Name       string   `json:"name"`
	Role       api.Role `json:"role"`
	Addresses  []string `json:"addresses,omitempty"`
	// Epoch is the life of the state in which an operator has confirmed the node, or
	// in which it became one. In any other it is refused.
	Epoch int64 `json:"epoch,omitempty"`
	// Expected is false once the topology in force no longer names the server.
	Expected   bool   `json:"expected"`
	Generation int64  `json:"generation"`
	Digest     string `json:"digest"`
	Config     Sealed `json:"config,omitempty"` // JSON of api.NodeConfig
	// Files are the SHA-256s of the files that Config names: what the node may fetch.
	Files []string `json:"files,omitempty"`
	// Conditions are the condition types that Config calls for.
	Conditions []string `json:"conditions,omitempty"`
	// KubernetesVersion is the one that a document of the node named last, empty for none.
	KubernetesVersion string         `json:"kubernetesVersion,omitempty"`
	Withheld          []api.Withheld `json:"withheld,omitempty"`
	// Asked is plan.Node.Asked: what is asked of the node besides Config.
	Asked    string    `json:"asked,omitempty"`
	Identity *Identity `json:"identity,omitempty"`
	// MayReenroll lets the server redeem the join token once more (node reenroll).
	MayReenroll bool `json:"mayReenroll,omitempty"`
	// Agent is what the agent said of itself when it polled last; nil before the first poll.
	Agent *api.Agent `json:"agent,omitempty"`
	// AgentOffer is the agent that the node was told last to become; nil for none.
	AgentOffer *AgentOffer `json:"agentOffer,omitempty"`
	// Status is the last reported transition; heartbeats are not stored.
	Status *api.NodeStatus `json:"status,omitempty"`
	// StatusOf is the EnrolledAt of the identity that reported Status: a machine
	// that enrolled anew has yet to report, whatever stood here before.
	StatusOf time.Time `json:"statusOf,omitzero"`
}

// Identity is the client certificate that a node has.
type Identity struct {
	Serial string `json:"serial"`
	// PreviousSerial stays good until the new certificate has made one call.
	PreviousSerial string `json:"previousSerial,omitempty"`
	// KeyHash is the SHA-256 (lower-case hexadecimal) of the certified public key.
	// An enrollment with the same key is the same machine that lost the answer.
	KeyHash       string     `json:"keyHash,omitempty"`
	NotAfter      time.Time  `json:"notAfter"`
	EnrolledAt    time.Time  `json:"enrolledAt"`
	RevokedAt     *time.Time `json:"revokedAt,omitempty"`
	RevokedReason string     `json:"revokedReason,omitempty"`
	// RevokedByHand: only an operator lets the server enroll again. One that was
	// revoked because the topology lacked it may, when a topology expects it again.
	RevokedByHand bool `json:"revokedByHand,omitempty"`
	// Attestation is what proved that the machine is the server, when it enrolled;
	// empty after a restore that knows less.
	Attestation api.Attestation `json:"attestation,omitempty"`
	// BootedAt is when the machine that enrolled had booted, by its own word; nil if it did not say.
	BootedAt *time.Time `json:"bootedAt,omitempty"`
}

// Live says that the identity exists and is not revoked.
func (i *Identity) Live() bool { return i != nil && i.RevokedAt == nil }

// Volume is a Cinder volume and the one permit of its life.
type Volume struct {
	ID             string `json:"id"`
	InstanceID     string `json:"instanceId,omitempty"`
	NodeID         string `json:"nodeId,omitempty"`
	ResourceID     string `json:"resourceId,omitempty"`
	SizeBytes      int64  `json:"sizeBytes,omitempty"`
	FilesystemUUID string `json:"filesystemUuid"`
	// AttachedTo lists the servers that the topology attaches it to.
	AttachedTo []string `json:"attachedTo,omitempty"`
	// Epoch is the life of the state since which all that was permitted is on record:
	// the one in which the record was made, or an operator decided about the volume.
	Epoch  int64  `json:"epoch,omitempty"`
	Permit Permit `json:"permit"`
	// ReformatRequested: an operator allowed one more format, whatever the disk has.
	ReformatRequested bool      `json:"reformatRequested,omitempty"`
	ChangedAt         time.Time `json:"changedAt"`
}

// Permit is the answer to FormatWanted and how far it was used.
type Permit struct {
	State     api.PermitState `json:"state"`
	ID        string          `json:"id,omitempty"`
	NodeID    string          `json:"nodeId,omitempty"`
	Overwrite bool            `json:"overwrite,omitempty"`
	SizeBytes int64           `json:"sizeBytes,omitempty"`
	Epoch     int64           `json:"epoch,omitempty"`
}

// Operation is the record of one phase of an LCM operation.
type Operation struct {
	api.Operation
	Request api.OperationRequest `json:"request"`
	// CreatedVersion is the desired version that it put in force (0: none),
	// PreviousVersion the one to go back to if it fails.
	CreatedVersion  int64 `json:"createdVersion,omitempty"`
	PreviousVersion int64 `json:"previousVersion,omitempty"`
	// BaseVersion is what an END is measured against to tell which servers are new:
	// the version in force after the END before it. A retry keeps its predecessor's.
	BaseVersion int64 `json:"baseVersion,omitempty"`
	// OldServerOff is the storage server that OldServerIsOffBy has stated to be off, "" if no old one
	// could write then.
	OldServerOff string `json:"oldServerOff,omitempty"`
	// StuckSince is since when no waiting makes the targets of an END ready and none of
	// them has changed; zero if waiting may.
	StuckSince time.Time `json:"stuckSince,omitzero"`
	// Epoch is the life of the state in which it began or, once it has, ended.
	Epoch int64 `json:"epoch,omitempty"`
}

// OperationState is what is counted of an operation.
type OperationState struct {
	State     api.OperationState `json:"state"`
	Operation api.OperationType  `json:"operation"`
	Type      api.ScaleType      `json:"type"`
	Phase     api.OperationPhase `json:"phase"`
	StartedAt time.Time          `json:"startedAt"`
}

// StackFailed says that the operation failed because its stack is not what it should be.
func (o Operation) StackFailed() bool {
	return o.Error != nil && o.Error.Type == api.ProblemStackFailed
}

// File is a file of an instance's VNF package; its content is a blob.
type File struct {
	InstanceID string    `json:"instanceId"`
	Path       string    `json:"path"`
	SHA256     string    `json:"sha256"`
	SizeBytes  int64     `json:"sizeBytes"`
	UploadedAt time.Time `json:"uploadedAt"`
	// Faults is what is wrong with the content for the uses that the parameters in
	// force make of it.
	Faults fault.List `json:"faults,omitempty"`
	// Warnings hinder nothing.
	Warnings fault.List `json:"warnings,omitempty"`
	// ValidatedFor names the parameters for which Faults and Warnings were found; empty
	// for content that has not been validated yet.
	ValidatedFor string `json:"validatedFor,omitempty"`
	// Manifests are the PersistentVolumes of a manifest without faults.
	Manifests []Manifest `json:"manifests,omitempty"`
	// Previous is the content that documents name until this one has been
	// validated; nil for none.
	Previous *Content `json:"previous,omitempty"`
	// Lost says that no replica has the content any more.
	Lost bool `json:"lost,omitempty"`
}

// Content is what a blob has.
type Content struct {
	SHA256    string     `json:"sha256"`
	SizeBytes int64      `json:"sizeBytes"`
	Manifests []Manifest `json:"manifests,omitempty"`
}

// Manifest is a PersistentVolume of a package file, its metadata.name and the object.
type Manifest struct {
	Name   string          `json:"name"`
	Object json.RawMessage `json:"object"`
}

// Usable is the content that documents may name: this one once it has been validated,
// the one before until then; nil if the content has faults, or there is none.
func (f *File) Usable() *Content {
	switch {
	case f.ValidatedFor == "":
		return f.Previous
	case len(f.Faults) > 0:
		return nil
	}
	return &Content{SHA256: f.SHA256, SizeBytes: f.SizeBytes, Manifests: f.Manifests}
}

// Token is an API token of the northbound side, without its secret.
type Token struct {
	api.Token
	MAC []byte `json:"mac"`
	// Epoch is the life of the state in which it was made, or confirmed by an
	// operator. In any other it opens nothing.
	Epoch int64 `json:"epoch,omitempty"`
	// RevokedAt is set for good. The record stays, without its MAC: a restore takes it
	// over, so that an older backup does not bring the token back.
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
	// Expired: its end was noticed. Whether it is over only ExpiresAt says.
	Expired bool `json:"expired,omitempty"`
}

// AuthorityPair is a certificate of the certificate authority with its private key.
type AuthorityPair struct {
	// PEM is what the file of the pair would have.
	PEM Sealed `json:"pem"`
}
