// Package permit asks the controller whether a volume may be formatted.
package permit

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/role/storage"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// Controller gives the permits of the controller. Before it has a link it
// answers that there is no controller, so that nothing is formatted.
type Controller struct{ link atomic.Pointer[link.Link] }

var _ storage.Permits = (*Controller)(nil)

// Use makes the link the one that is asked.
func (p *Controller) Use(l *link.Link) { p.link.Store(l) }

// Wanted asks for a permit.
func (p *Controller) Wanted(ctx context.Context, f storage.Format) (storage.Permit, error) {
	answer, err := p.post(ctx, f, api.FormatWanted)
	if err != nil {
		return storage.Permit{}, err
	}
	if answer.Permit == "" {
		return storage.Permit{}, errors.New("the controller answered without a permit and without a refusal")
	}
	return storage.Permit{ID: answer.Permit, Overwrite: answer.Overwrite}, nil
}

// Started announces that the disk will be written to.
func (p *Controller) Started(ctx context.Context, f storage.Format) error {
	answer, err := p.post(ctx, f, api.FormatStarted)
	if err != nil {
		return err
	}
	if answer.Permit != f.Permit || answer.Phase != api.FormatStarted {
		return errors.New("the controller did not acknowledge the start of the format with its permit; nothing is written")
	}
	return nil
}

// Formatted reports that the filesystem is there.
func (p *Controller) Formatted(ctx context.Context, f storage.Format) error {
	_, err := p.post(ctx, f, api.FormatFormatted)
	return err
}

func (p *Controller) post(ctx context.Context, f storage.Format, phase api.FormatPhase) (*api.FormatPermit, error) {
	l := p.link.Load()
	if l == nil {
		return nil, converge.Wait(api.ReasonNoPermit, "volume %s is not formatted: no controller has been reached since the agent started, and only it can permit that", f.VolumeID)
	}
	var answer *api.FormatPermit
	err := l.Short(ctx, func(ctx context.Context, c *client.Controller) (err error) {
		answer, err = client.Read[api.FormatPermit](c.PostFormat(ctx, f.VolumeID, f.Report(phase)))
		return err
	})
	return answer, refusal(f, phase, err)
}

// refusal turns the controller's problems into what the engine understands, and
// leaves the rest as it is.
func refusal(f storage.Format, phase api.FormatPhase, err error) error {
	var problem *api.Problem
	var unreachable *client.Unreachable
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unreachable):
		return converge.Wait(api.ReasonNoPermit, "volume %s: the controller did not answer the message that a format is %s: %v", f.VolumeID, phase, err)
	case !errors.As(err, &problem):
		return err
	}
	detail := problem.Detail
	if detail == "" {
		detail = problem.Title
	}
	if commands := problem.Commands(); commands != "" {
		detail += " (" + commands + ")"
	}
	switch problem.Type {
	case api.ProblemNoPermit:
		return converge.Wait(api.ReasonNoPermit, "volume %s: %s", f.VolumeID, detail)
	case api.ProblemFormatInterrupted:
		return converge.Fail(api.ReasonFormatInterrupted, "volume %s: %s", f.VolumeID, detail)
	case api.ProblemMultiAttached:
		return converge.Fail(api.ReasonMultiAttached, "volume %s: %s", f.VolumeID, detail)
	}
	return err
}
