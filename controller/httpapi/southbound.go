package httpapi

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/node"
	"github.com/nodehitch/nodehitch/controller/store/files"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/plain"
)

// Enroll redeems a join token for a client certificate.
func (s *Handler) Enroll(ctx context.Context, r EnrollRequestObject) (EnrollResponseObject, error) {
	call := callOf(ctx)
	plain.Strings(r.Body)
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
	p, err := s.pollOf(ctx, r.Params)
	if err != nil {
		return nil, err
	}
	s.Nodes.Seen(p.nodeID)
	if err := s.hold(ctx, p.nodeID, p.longest, p.check); err != nil {
		return nil, err
	}
	return p.answer(ctx)
}

// poll is a request for a configuration, and what the last check has found. It is
// allocated, and its check: with them on the stack of each held poll the runtime would not
// shrink that stack from 16 to 8 KiB.
type poll struct {
	handler            *Handler
	check              func() (done bool, err error) // says whether it can be answered
	nodeID             string
	agent              wire.Agent
	ifNoneMatch, known *string       // the digest and the generation that the agent has
	longest            time.Duration // to hold it
	checked            bool
	etag               string
	wanted             *wire.WantedAgent
	unchanged          bool
}

func (s *Handler) pollOf(ctx context.Context, params wire.GetNodeConfigParams) (*poll, error) {
	p := &poll{handler: s, nodeID: callOf(ctx).nodeID, ifNoneMatch: params.IfNoneMatch, known: params.Generation}
	p.check = func() (bool, error) { return p.compare(ctx) }
	var err error
	if p.agent, err = agentOf(params.NodehitchAgent); err == nil && p.ifNoneMatch != nil {
		p.longest, err = s.holdOf(params.Wait)
	}
	return p, err
}

// compare says whether the poll can be answered.
func (p *poll) compare(ctx context.Context) (done bool, err error) {
	now, err := p.version(ctx)
	if err != nil {
		return false, err
	}
	p.etag, p.wanted = `"`+now.Digest+`"`, now.Wanted
	sameGeneration := p.known == nil || *p.known == strconv.FormatInt(now.Generation, 10)
	p.unchanged = p.ifNoneMatch != nil && matches(*p.ifNoneMatch, p.etag) && sameGeneration
	return !p.unchanged || p.wanted != nil && p.handler.Agents.IsNews(p.nodeID, *p.wanted), nil
}

// version is what the poll is compared with. The request was authenticated before the
// first check, which records what its agent is. After a change the caller's identity is
// checked again, and the agent may have been replaced in between.
func (p *poll) version(ctx context.Context) (node.Version, error) {
	if !p.checked {
		p.checked = true
		return p.handler.Nodes.Polled(ctx, p.nodeID, p.agent)
	}
	if _, _, err := p.handler.Enrollment.Authenticate(ctx, callOf(ctx).request.TLS.PeerCertificates, false); err != nil {
		return node.Version{}, err
	}
	return p.handler.Nodes.NodeVersion(ctx, p.nodeID, p.agent)
}

// answer is a function of its own: what it needs on the stack would else be kept for
// each held poll.
func (p *poll) answer(ctx context.Context) (GetNodeConfigResponseObject, error) {
	if p.wanted != nil {
		p.handler.Agents.Told(p.nodeID, *p.wanted)
	}
	if p.unchanged {
		return GetNodeConfig304Response{Headers: p.headers(p.etag)}, nil
	}
	config, digest, err := p.handler.Nodes.NodeConfig(ctx, p.nodeID)
	if err != nil {
		return nil, err
	}
	return GetNodeConfig200JSONResponse{Body: config, Headers: GetNodeConfig200ResponseHeaders(p.headers(`"` + digest + `"`))}, nil
}

// headers go with every answer of a poll: what a node shall do and no document asks for, so
// that a change of it is no new generation and nothing waits for it.
func (p *poll) headers(etag string) GetNodeConfig304ResponseHeaders {
	s := p.handler
	spread := s.SpreadSeconds()
	h := GetNodeConfig304ResponseHeaders{ETag: &etag, NodehitchPollSeconds: &s.PollSeconds, NodehitchConvergeSeconds: &s.ConvergeSeconds, NodehitchSpreadSeconds: &spread}
	if p.wanted != nil {
		h.NodehitchAgentVersion, h.NodehitchAgentSha256, h.NodehitchAgentSize = &p.wanted.Version, &p.wanted.SHA256, &p.wanted.SizeBytes
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

// PutNodeStatus takes what a node observed. Texts of a machine enter here, by Enroll and by
// PostFormat, and are made harmless.
func (s *Handler) PutNodeStatus(ctx context.Context, r PutNodeStatusRequestObject) (PutNodeStatusResponseObject, error) {
	plain.Strings(r.Body)
	if err := s.Nodes.ReportStatus(ctx, callOf(ctx).nodeID, *r.Body); err != nil {
		return nil, err
	}
	return PutNodeStatus204Response{}, nil
}

// PostFormat takes one message of the format exchange.
func (s *Handler) PostFormat(ctx context.Context, r PostFormatRequestObject) (PostFormatResponseObject, error) {
	plain.Strings(r.Body)
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
