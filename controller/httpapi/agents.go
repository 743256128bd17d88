package httpapi

import (
	"context"

	"github.com/nodehitch/nodehitch/controller/notify"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// GetAgent serves the agent for one architecture.
func (s *Handler) GetAgent(ctx context.Context, r GetAgentRequestObject) (GetAgentResponseObject, error) {
	file, build, err := s.Agents.Open(r.Arch)
	if err != nil {
		return nil, err
	}
	return content{request: callOf(ctx).request, file: file, sha256: build.SHA256}, nil
}

// GetAgents shows how many nodes have which agent; it can be waited on.
func (s *Handler) GetAgents(ctx context.Context, r GetAgentsRequestObject) (GetAgentsResponseObject, error) {
	rollout, err := watch(ctx, s, notify.Nodes, r.Params.Wait, r.Params.IfNoneMatch, func() (rollout wire.AgentRollout, content any, err error) {
		rollout, err = s.Agents.Rollout(ctx)
		return rollout, rollout, err
	})
	if err != nil {
		return nil, err
	}
	if rollout.unchanged {
		return GetAgents304Response{Headers: NotModifiedResponseHeaders{ETag: &rollout.etag}}, nil
	}
	return GetAgents200JSONResponse{Body: rollout.value, Headers: GetAgents200ResponseHeaders{ETag: &rollout.etag}}, nil
}

// UpgradeAgents begins an upgrade of the agents, or continues it.
func (s *Handler) UpgradeAgents(ctx context.Context, r UpgradeAgentsRequestObject) (UpgradeAgentsResponseObject, error) {
	rollout, err := s.Agents.Upgrade(ctx, r.Body.Version, callOf(ctx).who)
	if err != nil {
		return nil, err
	}
	return UpgradeAgents200JSONResponse(rollout), nil
}

// PauseAgents begins no further wave.
func (s *Handler) PauseAgents(ctx context.Context, _ PauseAgentsRequestObject) (PauseAgentsResponseObject, error) {
	rollout, err := s.Agents.Pause(ctx, callOf(ctx).who)
	if err != nil {
		return nil, err
	}
	return PauseAgents200JSONResponse(rollout), nil
}
