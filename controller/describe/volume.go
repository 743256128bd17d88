package describe

import "github.com/nodehitch/nodehitch/shared/api"

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
	if v.ReformatRequested {
		return "Reformat", "its node may format it once, whatever the disk holds"
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

// RestoredVolume says what is done with a volume after its instance was restored and confirmed.
func RestoredVolume(v api.Volume) (text string, tone Tone) {
	if v.Unconfirmed {
		return "no format before `hitchctl volume reformat`", Waiting
	}
	return "never formatted again", Good
}
