package attestation

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/shared/api"
)

// checkIdentityProof compares the nonce that the machine sent. If it is not the one in
// force, the machine is asked to read that one.
func (n *Nova) checkIdentityProof(ctx context.Context, at place, serverID, given string) (api.Attestation, error) {
	if n.nonces.matches(serverID, given) {
		return api.AttestedByNonce, nil
	}
	err := n.nonces.ask(ctx, serverID, func(value string) error {
		return write(ctx, at.cloud, serverID, value)
	})
	var answer *openstack.Error
	switch {
	case err == nil && given == "":
		return "", nonceAsked(serverID)
	case err == nil:
		return "", nonceWrong(serverID)
	case errors.Is(err, errFull):
		return "", full(err)
	case openstack.IsNotFound(err):
		return "", unknownServer(serverID, err)
	case openstack.IsForbidden(err) && n.Nonce == Required:
		return "", nonceForbidden(serverID, err)
	case openstack.IsForbidden(err):
		n.without(at.cloud.Name(), err)
		return api.AttestedByNova, nil
	case errors.As(err, &answer) && answer.Status == http.StatusConflict:
		return "", busy(serverID, err)
	}
	return "", cloudUnavailable("Nova", err)
}

// write continues when the machine hangs up: other requests wait for its outcome.
func write(ctx context.Context, cloud Cloud, serverID, value string) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(attestationTimeout)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	return cloud.SetMetadata(ctx, serverID, api.NonceKey, value)
}

// without logs, once for each cloud, that machines enroll without a nonce.
func (n *Nova) without(cloud string, err error) {
	if n.WithoutNonce != nil {
		n.WithoutNonce()
	}
	if _, before := n.warned.LoadOrStore(cloud, true); before {
		return
	}
	n.log().Warn("servers of this cloud enroll without a nonce, because the credential may not write their metadata: anyone who has the join token can "+
		"enroll as a server of the stack that has not enrolled; allow the credential PUT and DELETE of /v2.1/servers/{server_id}/metadata/{key}, "+
		"or set attestation.nonce to required or off", "cloud", cloud, "error", err)
}
