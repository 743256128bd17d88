package attestation

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/controller/trust/enrollment"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The reasons of refusals, as they are counted among the results of enrollments.
const (
	EventNoCloud        = "attest_no_cloud"
	EventNoStack        = "attest_no_stack"
	EventCloud          = "attest_cloud"
	EventUnknownServer  = "attest_unknown_server"
	EventOtherProject   = "attest_other_project"
	EventStatus         = "attest_status"
	EventSourceAddress  = "attest_source_address"
	EventStackGone      = "attest_stack_gone"
	EventNotInStack     = "attest_not_in_stack"
	EventNonceAsked     = "attest_nonce_asked"
	EventNonceWrong     = "attest_nonce_wrong"
	EventNonceForbidden = "attest_nonce_forbidden"
	EventBusy           = "attest_busy"
	EventFull           = "attest_full"
)

// Refusals are all of them.
var Refusals = []string{EventNoCloud, EventNoStack, EventCloud, EventUnknownServer, EventOtherProject, EventStatus, EventSourceAddress,
	EventStackGone, EventNotInStack, EventNonceAsked, EventNonceWrong, EventNonceForbidden, EventBusy, EventFull}

// soon is when a refusal that the cloud's next step may lift is worth another try.
const soon = 15 * time.Second

func noCloud(instanceID string, err error) error {
	return &enrollment.Refusal{Reason: EventNoCloud, Found: err, Problem: api.NewProblem(api.ProblemNotAttested, fmt.Sprintf(
		"the controller verifies servers with the cloud, and has no credential for the cloud of the VNF instance %s: PUT the instance with its vimConnectionInfo, "+
			"or set openstack.cloud in controller.yaml, or attestation: {mode: token}; see the controller's log", instanceID))}
}

func noStack(instanceID string) error {
	return &enrollment.Refusal{Reason: EventNoStack, Problem: api.NewProblem(api.ProblemNotAttested, fmt.Sprintf(
		"the controller verifies servers with the cloud, and does not know the Heat stack of the VNF instance %s: PUT the instance with its stackId", instanceID))}
}

// cloudUnavailable is the refusal while the cloud does not say yes or no.
func cloudUnavailable(service string, err error) error {
	detail := service + " did not answer whether this machine is the server that it says it is; it can enroll once " + service + " answers"
	if openstack.IsForbidden(err) {
		detail = "the controller may not ask " + service + " whether this machine is the server that it says it is: its credential lacks a role or an access rule, see the controller's log"
	}
	return &enrollment.Refusal{Reason: EventCloud, Found: err, Problem: api.NewProblem(api.ProblemCloudError, detail)}
}

func unknownServer(serverID string, err error) error {
	return &enrollment.Refusal{Reason: EventUnknownServer, Found: err, RetryAfter: soon, Problem: api.NewProblem(api.ProblemNotAttested, fmt.Sprintf(
		"Nova has no server %s in this project: expected one that exists; if it was deleted, post the operation that takes it out of the topology", serverID))}
}

func otherProject(serverID, found, expected string) error {
	return &enrollment.Refusal{Reason: EventOtherProject, Found: fmt.Errorf("the server is of project %s, the credential of %s", found, expected),
		Problem: api.NewProblem(api.ProblemNotAttested, fmt.Sprintf(
			"the server %s is of another project than the controller's credential: expected one of the same", serverID))}
}

func wrongStatus(serverID, found string) error {
	return &enrollment.Refusal{Reason: EventStatus, RetryAfter: soon, Problem: api.NewProblem(api.ProblemNotAttested, fmt.Sprintf(
		"the server %s is %s, expected ACTIVE or BUILD: a running machine has one of these, so check the server in Nova", serverID, found))}
}

// wrongSource does not say which addresses would be right.
func wrongSource(serverID string, found netip.Addr, expected []netip.Addr) error {
	return &enrollment.Refusal{Reason: EventSourceAddress, Found: fmt.Errorf("Nova has the addresses %v", expected), //nolint:staticcheck // a name
		Problem: api.NewProblem(api.ProblemNotAttested, fmt.Sprintf(
			"the request came from %v, which is no fixed or floating address of the server %s: let it reach the controller without address translation, "+
				"or set attestation: {sourceAddress: false} in controller.yaml", found, serverID))}
}

func stackGone(serverID, stackID string, err error) error {
	return &enrollment.Refusal{Reason: EventStackGone, Found: err, RetryAfter: soon, Problem: api.NewProblem(api.ProblemNotAttested, fmt.Sprintf(
		"the Heat stack %s of the server %s does not exist: if another stack replaced it, post the operation's END with that stack's stackId", stackID, serverID))}
}

func notInStack(serverID string, stack openstack.Stack) error {
	return &enrollment.Refusal{Reason: EventNotInStack, RetryAfter: soon, Problem: api.NewProblem(api.ProblemNotAttested, fmt.Sprintf(
		"the server %s is no resource of the Heat stack %s (%s), nor of one nested in it: expected a server that this stack made; "+
			"`openstack stack resource list -n 5 %s` shows them", serverID, stack.Name, stack.ID, stack.ID))}
}

// nonceAsked is a step, not a failure.
func nonceAsked(serverID string) error {
	return &enrollment.Refusal{Reason: EventNonceAsked, Passing: true, Problem: api.NewProblem(api.ProblemNonceRequired, fmt.Sprintf(
		"prove that this machine is the server %s: read meta.%s from its metadata service, which shows it within seconds, and send it as nonce", serverID, api.NonceKey))}
}

func nonceWrong(serverID string) error {
	return &enrollment.Refusal{Reason: EventNonceWrong, Problem: api.NewProblem(api.ProblemNonceRequired, fmt.Sprintf(
		"the nonce is not the one of the server %s that is in force: read meta.%s from its metadata service again, which may show an old answer for some seconds", serverID, api.NonceKey))}
}

func nonceForbidden(serverID string, err error) error {
	return &enrollment.Refusal{Reason: EventNonceForbidden, Found: err, Problem: api.NewProblem(api.ProblemNotAttested, fmt.Sprintf(
		"the controller's credential may not write the metadata of the server %s, so the machine cannot prove that it is that server: "+
			"allow it, or set attestation: {nonce: if-allowed} in controller.yaml", serverID))}
}

// busy is Nova's 409 while the server is built or has a task, or is locked.
func busy(serverID string, err error) error {
	return &enrollment.Refusal{Reason: EventBusy, Found: err, Passing: true, RetryAfter: soon, Problem: api.NewProblem(api.ProblemCloudError, fmt.Sprintf(
		"the machine cannot prove yet that it is the server %s: Nova takes no metadata for the server while it is built, has another task, or is locked", serverID))}
}

func full(err error) error {
	return &enrollment.Refusal{Reason: EventFull, Problem: api.NewProblem(api.ProblemUnavailable, err.Error())}
}
