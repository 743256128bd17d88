package describe

import (
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
)

// OfPermit is the tone of a permit's state.
func OfPermit(s api.PermitState) Tone {
	switch s {
	case api.PermitFormatted, api.PermitAdopted:
		return Good
	case api.PermitInterrupted:
		return Bad
	}
	return Waiting
}

// Permit is the name of a volume's permit and what it means, "" for one that is not known.
func Permit(v api.Volume) (name, doc string) {
	switch {
	case v.ReformatRequested:
		return "Reformat", "its node may format it once, whatever the disk holds"
	case v.Unconfirmed:
		doc, _ = RestoredVolume(v)
		return string(v.PermitState), doc
	}
	return string(v.PermitState), map[api.PermitState]string{
		api.PermitNone:        "nothing is permitted yet; its node asks once the disk passed the blank check",
		api.PermitGranted:     "a node may format it, and has not begun",
		api.PermitStarted:     "its node is formatting it",
		api.PermitFormatted:   "it was formatted, and is not formatted again",
		api.PermitInterrupted: "its node left while it was formatting or permitted to reformat, so the disk may hold anything; `hitchctl volume adopt` keeps its filesystem, `hitchctl volume reformat` permits a new one",
		api.PermitAdopted:     "an operator named the filesystem that it holds",
	}[v.PermitState]
}

// NeverFormatted reports whether no format of a volume is known to have begun and no filesystem on it was
// adopted, so that its UUID is only the one that a format would give.
func NeverFormatted(v api.Volume) bool {
	return v.PermitState == api.PermitNone || v.PermitState == api.PermitGranted
}

// Finding is what keeps a volume from being mounted, as its node says; false for nothing. The node names
// each volume that its message is about.
func Finding(v api.Volume, n api.Node) (api.Condition, bool) {
	for _, c := range PresentConditions(n) {
		if c.Type == api.ConditionVolumesMounted && c.Status == api.ConditionFalse && strings.Contains(c.Message, v.ID) {
			return c, true
		}
	}
	return api.Condition{}, false
}

// RestoredVolume says what is done with a volume after its instance was restored and confirmed.
func RestoredVolume(v api.Volume) (text string, tone Tone) {
	if v.Unconfirmed {
		return "no format before `hitchctl volume reformat`", Waiting
	}
	return "never formatted again", Good
}
