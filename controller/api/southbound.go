package api

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/files"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// Enroll redeems a join token for a client certificate.
func (s *Handler) Enroll(ctx context.Context, r EnrollRequestObject) (EnrollResponseObject, error) {
	call := callOf(ctx)
	issued, err := s.Enrollment.Enroll(ctx, call.joinToken, *r.Body, call.remote())
	if err != nil {
		return nil, err
	}
	call.who = "node " + issued.NodeID
	return Enroll201JSONResponse(issued), nil
}

// RenewCertificate issues the caller's next certificate.
func (s *Handler) RenewCertificate(ctx context.Context, r RenewCertificateRequestObject) (RenewCertificateResponseObject, error) {
	call := callOf(ctx)
	issued, err := s.Enrollment.Renew(ctx, call.nodeID, call.serial, *r.Body)
	if err != nil {
		return nil, err
	}
	return RenewCertificate201JSONResponse(issued), nil
}

// GetNodeConfig is the agents' long poll. It is answered at once when the content
// is another than the agent has, and when its identity is revoked meanwhile.
func (s *Handler) GetNodeConfig(ctx context.Context, r GetNodeConfigRequestObject) (GetNodeConfigResponseObject, error) {
	call := callOf(ctx)
	agent, err := agentOf(r.Params.NodehitchAgent)
	if err != nil {
		return nil, err
	}
	s.Nodes.Seen(call.nodeID)
	var etag string
	var unchanged bool
	longest := time.Duration(0)
	if r.Params.IfNoneMatch != nil {
		if longest, err = s.holdOf(r.Params.Wait); err != nil {
			return nil, err
		}
	}
	first := true
	err = s.hold(ctx, call.nodeID, longest, func() (bool, error) {
		digest, generation, err := s.nodeVersion(ctx, &first, agent)
		if err != nil {
			return false, err
		}
		etag = `"` + digest + `"`
		sameGeneration := r.Params.Generation == nil || *r.Params.Generation == strconv.FormatInt(generation, 10)
		unchanged = r.Params.IfNoneMatch != nil && matches(*r.Params.IfNoneMatch, etag) && sameGeneration
		return !unchanged, nil
	})
	if err != nil {
		return nil, err
	}
	if unchanged {
		return s.notModified(etag, agent.Architecture), nil
	}
	return s.nodeConfig(ctx, call.nodeID, agent.Architecture)
}

// The answers are made in functions of their own: what they need on the stack would
// else be kept for each poll that is held.

func (s *Handler) notModified(etag, architecture string) GetNodeConfigResponseObject {
	return GetNodeConfig304Response{Headers: s.pollHeaders(etag, architecture)}
}

func (s *Handler) nodeConfig(ctx context.Context, nodeID, architecture string) (GetNodeConfigResponseObject, error) {
	config, digest, err := s.Nodes.NodeConfig(ctx, nodeID)
	if err != nil {
		return nil, err
	}
	return GetNodeConfig200JSONResponse{Body: config, Headers: GetNodeConfig200ResponseHeaders(s.pollHeaders(`"`+digest+`"`, architecture))}, nil
}

// pollHeaders go with every answer of a poll: what every node shall do and no document
// asks for, so that a change of it is no new generation and nothing waits for it.
func (s *Handler) pollHeaders(etag, architecture string) GetNodeConfig304ResponseHeaders {
	spread := s.SpreadSeconds()
	h := GetNodeConfig304ResponseHeaders{ETag: &etag, NodehitchPollSeconds: &s.PollSeconds, NodehitchConvergeSeconds: &s.ConvergeSeconds, NodehitchSpreadSeconds: &spread}
	if wanted := s.agents.wanted(architecture); wanted != nil {
		h.NodehitchAgentVersion, h.NodehitchAgentSha256, h.NodehitchAgentSize = &wanted.Version, &wanted.SHA256, &wanted.SizeBytes
	}
	if len(s.ControllerURLs) > 0 {
		urls := strings.Join(s.ControllerURLs, " ")
		h.NodehitchControllerUrls = &urls
	}
	return h
}

// agentOf is what the agent of a poll says of itself. A header that is malformed is
// refused: to guess would be to plan for an unknown agent.
func agentOf(header *string) (wire.Agent, error) {
	if header == nil {
		return wire.FirstAgent(), nil
	}
	agent, err := wire.ParseAgent(*header)
	if err != nil {
		return agent, wire.NewProblem(wire.ProblemInvalid, "header parameter Nodehitch-Agent: "+err.Error())
	}
	return agent, nil
}

// nodeVersion is what a poll is compared with. The request was authenticated before the
// first check, which records what its agent is. After a change the caller's identity is
// checked again, and the agent may have been replaced in between.
func (s *Handler) nodeVersion(ctx context.Context, first *bool, agent wire.Agent) (digest string, generation int64, err error) {
	call := callOf(ctx)
	if *first {
		*first = false
		return s.Nodes.Polled(ctx, call.nodeID, agent)
	}
	if _, _, err := s.Enrollment.Authenticate(ctx, call.request.TLS.PeerCertificates, false); err != nil {
		return "", 0, err
	}
	return s.Nodes.NodeVersion(ctx, call.nodeID)
}

// PutNodeStatus takes what a node observed.
func (s *Handler) PutNodeStatus(ctx context.Context, r PutNodeStatusRequestObject) (PutNodeStatusResponseObject, error) {
	if err := s.Nodes.ReportStatus(ctx, callOf(ctx).nodeID, *r.Body); err != nil {
		return nil, err
	}
	return PutNodeStatus204Response{}, nil
}

// PostFormat takes one message of the format exchange.
func (s *Handler) PostFormat(ctx context.Context, r PostFormatRequestObject) (PostFormatResponseObject, error) {
	permit, err := s.Volumes.Report(ctx, callOf(ctx).nodeID, canonical(r.VolumeID), *r.Body)
	if err != nil {
		return nil, err
	}
	return PostFormat200JSONResponse(permit), nil
}

// GetNodeFile serves a file to a node whose configuration names it, and to no
// other: to the others it does not exist.
func (s *Handler) GetNodeFile(ctx context.Context, r GetNodeFileRequestObject) (GetNodeFileResponseObject, error) {
	call := callOf(ctx)
	if !s.Nodes.NodeReads(ctx, call.nodeID, r.Sha256) {
		return nil, wire.NewProblem(wire.ProblemNotFound, "this node's configuration names no file with the SHA-256 "+r.Sha256)
	}
	file, err := s.Files.OpenBlob(ctx, r.Sha256)
	if errors.Is(err, files.ErrNoBlob) {
		return nil, wire.NewProblem(wire.ProblemNotFound, "the file with the SHA-256 "+r.Sha256+" is not on the controller; upload it again")
	}
	if err != nil {
		return nil, err
	}
	return content{request: call.request, file: file, sha256: r.Sha256}, nil
}
