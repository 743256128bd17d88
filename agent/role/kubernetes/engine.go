package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
	"github.com/nodehitch/nodehitch/shared/api"
)

const containerdService = "containerd.service"

// engineStep owns EngineReady.
type engineStep struct{ Options }

func (s *engineStep) Condition() string { return api.ConditionEngineReady }

func (s *engineStep) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.Kubernetes == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	plan := converge.Plan{Reason: api.ReasonEngineRunning}
	unit, err := s.Host.Units.Unit(ctx, containerdService)
	switch {
	case err != nil:
		return plan, err
	case unit.Loaded != "loaded":
		return plan, converge.Wait(api.ReasonEngineNotRunning, "%s is %s; expected containerd, the engine that kubelet uses: install it", containerdService, unit.Loaded)
	}
	version, err := s.offersCRI(ctx)
	if err != nil {
		return plan, err
	}
	if unit.File == "disabled" || unit.Active != "active" {
		plan.Actions = append(plan.Actions, converge.Action{Summary: "enable and start " + containerdService, Do: func(ctx context.Context) error {
			return s.start(ctx, unit)
		}})
	}
	plan.Message = fmt.Sprintf("containerd %s runs, and offers kubelet its interface", version)
	return plan, nil
}

func (s *engineStep) start(ctx context.Context, unit host.Unit) error {
	if unit.File == "disabled" {
		if err := errors.Join(s.Host.Units.Enable(ctx, containerdService), s.Host.Units.Reload(ctx)); err != nil {
			return err
		}
	}
	var failed *host.JobError
	if err := s.Host.Units.Start(ctx, containerdService); errors.As(err, &failed) {
		return converge.Wait(api.ReasonEngineNotRunning, "%v", err)
	} else if err != nil {
		return err
	}
	return nil
}

// offersCRI returns containerd's version if its configuration leaves kubelet its interface. The
// package of docker.com turns it off.
func (s *engineStep) offersCRI(ctx context.Context) (string, error) {
	c, err := containerdconf.ReadMachine(ctx, s.Host)
	if err != nil {
		return "", err
	}
	if c.Config.CRIDisabled {
		return "", converge.Wait(api.ReasonEngineConfigInvalid,
			"containerd's interface for kubelet is turned off in %s: take cri out of disabled_plugins%s, and restart containerd", c.Path, imported(c.Dump, c.Path))
	}
	return c.Said, nil
}

// imported names the files that may say it instead.
func imported(dump []byte, path string) string {
	others := slices.DeleteFunc(containerdconf.Imported(dump), func(other string) bool { return other == path })
	if len(others) == 0 {
		return ""
	}
	return ", also in " + strings.Join(others, ", ")
}
