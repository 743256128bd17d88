package api

import "strings"

// Command is the line of hitchctl that makes the call, with words in capitals for what the
// operator knows; "" if there is none, or for a call of a newer controller.
func (a Action) Command() string {
	or := func(word string) string {
		if a.ID != "" {
			return a.ID
		}
		return word
	}
	switch a.Call {
	case CallAdoptVolume:
		return "hitchctl volume adopt " + or("VOLUME") + " --filesystem-uuid UUID"
	case CallCancelOperation:
		return "hitchctl cancel operation " + or("OPERATION")
	case CallConfirmInstance:
		return "hitchctl confirm instance " + or("INSTANCE")
	case CallConfirmToken:
		return "hitchctl confirm token " + or("TOKEN")
	case CallCreateToken:
		return "hitchctl create token NAME"
	case CallGetOperation:
		return "hitchctl wait operation " + or("OPERATION")
	case CallListNodes:
		return "hitchctl get nodes"
	case CallListVolumes:
		return "hitchctl get volumes"
	case CallPutInstance:
		return "hitchctl apply " + or("INSTANCE") + " -f request.json"
	case CallReenrollNode:
		return "hitchctl node reenroll " + or("NODE")
	case CallReformatVolume:
		return "hitchctl volume reformat " + or("VOLUME")
	case CallRevokeNode:
		return "hitchctl node revoke " + or("NODE")
	case CallRevokeToken:
		return "hitchctl delete token " + or("TOKEN")
	}
	return ""
}

// Commands are those of the actions in backquotes, for what operators read of an agent or on the
// status page: "" for none.
func (p *Problem) Commands() string {
	var list []string
	for _, a := range p.Actions {
		if c := a.Command(); c != "" {
			list = append(list, "`"+c+"`")
		}
	}
	return strings.Join(list, ", ")
}
