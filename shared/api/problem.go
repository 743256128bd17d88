package api

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// ProblemPrefix starts the type of every problem that nodehitch itself defines.
const ProblemPrefix = "urn:nodehitch:problem:"

// The problem types; programs act on them.
const (
	ProblemInvalid             = ProblemPrefix + "invalid-request"
	ProblemNotFound            = ProblemPrefix + "not-found"
	ProblemUnauthorized        = ProblemPrefix + "unauthorized"
	ProblemForbidden           = ProblemPrefix + "forbidden"
	ProblemMethodNotAllowed    = ProblemPrefix + "method-not-allowed"
	ProblemConflict            = ProblemPrefix + "conflict"
	ProblemPrecondition        = ProblemPrefix + "precondition-failed"
	ProblemTooLarge            = ProblemPrefix + "too-large"
	ProblemMediaType           = ProblemPrefix + "unsupported-media-type"
	ProblemRange               = ProblemPrefix + "range-not-satisfiable"
	ProblemTooMany             = ProblemPrefix + "too-many-requests"
	ProblemInternal            = ProblemPrefix + "internal"
	ProblemUnavailable         = ProblemPrefix + "unavailable"
	ProblemNoLeader            = ProblemPrefix + "no-leader"
	ProblemFilesMissing        = ProblemPrefix + "files-missing"
	ProblemOperationInProgress = ProblemPrefix + "operation-in-progress"
	ProblemServerNotExpected   = ProblemPrefix + "server-not-expected"
	ProblemIdentityLive        = ProblemPrefix + "identity-live"
	ProblemRevoked             = ProblemPrefix + "revoked"
	ProblemNoPermit            = ProblemPrefix + "no-permit"
	ProblemFormatInterrupted   = ProblemPrefix + "format-interrupted"
	ProblemMultiAttached       = ProblemPrefix + "multi-attached"
	ProblemStackFailed         = ProblemPrefix + "stack-failed"
	ProblemStackInProgress     = ProblemPrefix + "stack-in-progress"
	ProblemStackGone           = ProblemPrefix + "stack-gone"
	ProblemCloudError          = ProblemPrefix + "cloud-error"
	ProblemNonceRequired       = ProblemPrefix + "nonce-required"
	ProblemNotAttested         = ProblemPrefix + "not-attested"
	ProblemDeadline            = ProblemPrefix + "deadline-exceeded"
	ProblemTargetsFailed       = ProblemPrefix + "targets-failed"
	ProblemVolumeUnresolved    = ProblemPrefix + "volume-unresolved"
	ProblemInterrupted         = ProblemPrefix + "interrupted"
	ProblemCancelled           = ProblemPrefix + "cancelled"
	ProblemSuperseded          = ProblemPrefix + "superseded"
	ProblemTopologyIncomplete  = ProblemPrefix + "topology-incomplete"
	ProblemVolumesInUse        = ProblemPrefix + "persistent-volumes-in-use"
	ProblemVolumesStranded     = ProblemPrefix + "persistent-volumes-stranded"
	ProblemMembersStay         = ProblemPrefix + "members-stay"
	ProblemRestoreUnconfirmed  = ProblemPrefix + "restore-unconfirmed"
	ProblemEventsPruned        = ProblemPrefix + "events-pruned"
	ProblemAgentNotCarried     = ProblemPrefix + "agent-not-carried"
	ProblemAgentTooNew         = ProblemPrefix + "agent-too-new"
)

var problemKinds = map[string]struct {
	status int
	title  string
}{
	ProblemInvalid:          {400, "the request is not valid"},
	ProblemNotFound:         {404, "no such object"},
	ProblemUnauthorized:     {401, "not authenticated"},
	ProblemForbidden:        {403, "not allowed"},
	ProblemMethodNotAllowed: {405, "the path does not have this method"},
	ProblemConflict:         {409, "in conflict with the present state"},
	ProblemPrecondition:     {412, "a condition of the request does not hold"},
	ProblemTooLarge:         {413, "the request is too large"},
	ProblemMediaType:        {415, "the body is of a type that is not accepted"},
	ProblemRange:            {416, "the range is not within the file"},
	ProblemTooMany:          {429, "too many requests"},
	ProblemInternal:         {500, "unexpected error of the controller"},
	ProblemUnavailable:      {503, "not available now"},
	// Nothing of the request was done, or it only reads: it can be made again as it is.
	ProblemNoLeader:            {503, "no leader can be reached now"},
	ProblemFilesMissing:        {422, "package files are missing or not valid"},
	ProblemOperationInProgress: {409, "another operation is in progress"},
	ProblemServerNotExpected:   {403, "no topology expects this server"},
	ProblemIdentityLive:        {409, "this server already has a live identity"},
	ProblemRevoked:             {403, "this identity is revoked"},
	ProblemNoPermit:            {403, "no permit to format this volume"},
	ProblemFormatInterrupted:   {409, "a format of this volume was interrupted"},
	ProblemMultiAttached:       {409, "the volume is attached to more than one server"},
	ProblemStackFailed:         {409, "the Heat stack is not complete"},
	ProblemStackInProgress:     {409, "Heat has not finished with the stack"},
	ProblemStackGone:           {409, "there is no such Heat stack"},
	ProblemCloudError:          {502, "the cloud did not give what was asked for"},
	ProblemNonceRequired:       {428, "the server has to read a nonce from its metadata service"},
	ProblemNotAttested:         {403, "the machine is not proven to be this server"},
	ProblemDeadline:            {504, "the deadline has passed"},
	ProblemTargetsFailed:       {409, "nodes have failed, and no waiting mends that"},
	ProblemVolumeUnresolved:    {409, "the stack does not have the volume"},
	ProblemInterrupted:         {409, "the operation was interrupted"},
	ProblemCancelled:           {409, "the operation was cancelled"},
	ProblemSuperseded:          {409, "TERMINATE superseded the operation"},
	ProblemTopologyIncomplete:  {409, "a required role has no server"},
	ProblemVolumesInUse:        {409, "PersistentVolumes of the storage server are in use"},
	ProblemVolumesStranded:     {409, "PersistentVolumes that were kept point to another server"},
	ProblemMembersStay:         {409, "members cannot leave the cluster"},
	ProblemRestoreUnconfirmed:  {503, "restored from a backup and not confirmed yet"},
	ProblemEventsPruned:        {410, "some of these events are no longer kept"},
	ProblemAgentNotCarried:     {409, "the controller carries no such agent"},
	ProblemAgentTooNew:         {409, "the agent may be newer than the controller"},
}

// ProblemTypes are all types, ordered.
func ProblemTypes() []string { return slices.Sorted(maps.Keys(problemKinds)) }

// NewProblem is a problem of one of the types above, with its status and title.
// The detail names the thing, what was found, what was expected and what to do.
func NewProblem(problemType, detail string) *Problem {
	kind, ok := problemKinds[problemType]
	if !ok {
		panic("api: unregistered problem type " + problemType)
	}
	return &Problem{Type: problemType, Title: kind.title, Status: kind.status, Detail: detail}
}

// With adds what an operator can do about the problem; its detail says the same.
func (p *Problem) With(actions ...Action) *Problem {
	p.Actions = append(p.Actions, actions...)
	return p
}

// NewInvalid is the problem of a request with these faults.
func NewInvalid(faults fault.List) *Problem {
	p := NewProblem(ProblemInvalid, "")
	p.InvalidParams = faults
	return p
}

// Invalid is the problem of a request with these faults, nil when nothing is wrong.
func Invalid(faults fault.List) error {
	if len(faults) == 0 {
		return nil
	}
	return NewInvalid(faults)
}

// Error makes a Problem an error: its title, detail and every fault.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Title)
	if p.Status != 0 {
		b.WriteString(" (" + strconv.Itoa(p.Status) + ")")
	}
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	for _, f := range p.InvalidParams {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}
