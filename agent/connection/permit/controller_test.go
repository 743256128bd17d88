package permit

import (
	"errors"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/role/storage"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

var format = storage.Format{VolumeID: "9a3e6c1e-1f7e-4d0e-8c55-0d8c1c6e2b11"}

func TestWithoutAControllerNothingIsFormatted(t *testing.T) {
	p := new(Controller)
	var waiting *converge.Waiting
	_, err := p.Wanted(t.Context(), format)
	if !errors.As(err, &waiting) || waiting.Reason != api.ReasonNoPermit || !strings.Contains(waiting.Message, "no controller") {
		t.Errorf("wanted: %v", err)
	}
	if err := p.Started(t.Context(), format); err == nil {
		t.Error("started without an acknowledgement")
	}
}

// e2e/agentcontroller tests the real controller's answers.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		err             error
		waits, terminal api.Reason
	}{
		"no permit":     {api.NewProblem(api.ProblemNoPermit, "formatted once"), api.ReasonNoPermit, ""},
		"interrupted":   {api.NewProblem(api.ProblemFormatInterrupted, "look"), "", api.ReasonFormatInterrupted},
		"two servers":   {api.NewProblem(api.ProblemMultiAttached, "a, b"), "", api.ReasonMultiAttached},
		"no controller": {&client.Unreachable{Where: "https://c", Err: errors.New("refused")}, api.ReasonNoPermit, ""},
		"unwell":        {api.NewProblem(api.ProblemInternal, "oh"), "", ""},
		"not enrolled":  {api.NewProblem(api.ProblemUnauthorized, ""), "", ""},
		"other server":  {&client.UnexpectedAnswer{Status: 502}, "", ""},
	} {
		got := refusal(format, api.FormatWanted, c.err)
		var waiting *converge.Waiting
		var terminal *converge.Terminal
		isWaiting, isTerminal := errors.As(got, &waiting), errors.As(got, &terminal)
		switch {
		case c.waits != "" && (!isWaiting || waiting.Reason != c.waits || !strings.Contains(waiting.Message, format.VolumeID)),
			c.terminal != "" && (!isTerminal || terminal.Reason != c.terminal || !strings.Contains(terminal.Message, format.VolumeID)),
			c.waits == "" && c.terminal == "" && !errors.Is(got, c.err):
			t.Errorf("%s: got %v", name, got)
		}
	}
	offered := refusal(format, api.FormatWanted, api.NewProblem(api.ProblemNoPermit, "formatted once").With(api.Action{Call: api.CallReformatVolume, ID: format.VolumeID}))
	if !strings.Contains(offered.Error(), "formatted once (`hitchctl volume reformat "+format.VolumeID+"`)") {
		t.Errorf("it does not say what to type: %v", offered)
	}
	if refusal(format, api.FormatWanted, nil) != nil {
		t.Error("an answer without a problem is refused")
	}
}
