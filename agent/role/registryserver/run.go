package registryserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

// mostMoves is more than any way to the desired container needs.
const mostMoves = 12

// answerWithin is how long a started container may take to answer before the action gives up;
// the next pass checks again.
const answerWithin = 20 * time.Second

// run brings the container to its desired state, move by move, and waits until it answers.
func (p *plan) run(ctx context.Context) error {
	have, err := p.owned()
	if err != nil {
		return err
	}
	i, err := p.known(ctx, sourceOf(p.section.Image), &have)
	if err != nil {
		return err
	}
	if i == nil {
		return converge.Wait(api.ReasonImageNotFound, "the image is no longer in the engine; the agent tries again")
	}
	for range mostMoves {
		at, err := p.place()
		if err != nil {
			return err
		}
		next, err := p.next(ctx, i, at)
		if err != nil {
			return err
		}
		if next == nil {
			return p.await(ctx)
		}
		p.Log.Info("container", "move", next.summary)
		if err := next.do(ctx); err != nil {
			return p.refused(err)
		}
	}
	return converge.Wait(api.ReasonNotAnswering, "the container %s does not reach its desired state; another program may be changing it", containerName)
}

// await polls until the registry answers, at most for answerWithin.
func (p *plan) await(ctx context.Context) error {
	again := backoff.Backoff{Min: 50 * time.Millisecond, Max: time.Second, Factor: 1.5}
	for begun := time.Now(); ; {
		err := p.answers(ctx)
		if err == nil || time.Since(begun) > answerWithin {
			return err
		}
		if c, inspected := p.Host.Engine.Container(ctx, containerName); inspected == nil && c != nil && c.Status != "running" {
			return err // it has ended, and err says why
		}
		if ended := sleep.For(ctx, again.Next(), nil); ended != nil {
			return errors.Join(err, ended)
		}
	}
}

// answers fails if no registry answers on the port.
func (p *plan) answers(ctx context.Context) error {
	c, err := p.lookup(ctx, containerName)
	if err != nil {
		return err
	}
	if c != nil && c.Status != "running" {
		return converge.Wait(api.ReasonNotAnswering, "the container %s is %s (exit code %d) %s: see `docker logs %s`", containerName, c.Status, c.ExitCode, c.Detail, containerName)
	}
	answer, err := p.Host.Ports.Get(ctx, p.section.Port, "/v2/")
	if err == nil {
		err = isRegistry(answer)
	}
	if err != nil {
		return converge.Wait(api.ReasonNotAnswering, "GET /v2/ on port %d: %v; see `docker logs %s`", p.section.Port, err, containerName)
	}
	return nil
}

// isRegistry accepts a 200, or a 401 that asks for a login, with the header of the
// Distribution API. The header is no longer required: without it, the body must be empty or
// JSON, which a web server with a page for every path does not send.
func isRegistry(a host.Answer) error {
	body := strings.TrimSpace(a.Body)
	switch {
	case a.Status != http.StatusOK && a.Status != http.StatusUnauthorized:
		return fmt.Errorf("the answer is %d %s; expected 200, or 401", a.Status, http.StatusText(a.Status))
	case a.Header.Get("Docker-Distribution-Api-Version") == "registry/2.0", body == "", strings.HasPrefix(body, "{"):
		return nil
	}
	return fmt.Errorf("the server there is no registry: its body begins %.40q", body)
}
