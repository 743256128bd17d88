package page

import (
	"net/http"
	"regexp"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
)

type problemPage struct {
	Status  int
	Problem problemShown
	// Meaning and Action are for the problems that the page itself has words for.
	Meaning, Action string
}

// objectAddress is what the paths of objects are like, whether there is such an object or not.
var objectAddress = regexp.MustCompile(`^/ui/(instances|nodes|volumes|operations)/[0-9A-Fa-f-]{36}(/[0-9]+)?$`)

func (v Problem) content(f Frame) content {
	p := problemPage{Status: v.Problem.Status, Problem: problemShown{Title: describe.Problem(v.Problem), Detail: v.Problem.Detail, Faults: faults(v.Problem.InvalidParams)}}
	title := "Something failed"
	switch status := v.Problem.Status; {
	case status == http.StatusNotFound && (f.URL == nil || !objectAddress.MatchString(f.URL.Path)):
		title = "There is no such page"
		p.Problem = problemShown{Title: title}
		p.Action = "Correct the address, or go to the overview: it leads to all pages."
	case status == http.StatusNotFound:
		title = "Not found"
		p.Action = "It may have been deleted: its instance's history tells. Go to the overview, or find it by a text in a list."
	case status == http.StatusTooManyRequests:
		title = "Too many requests"
		p.Action = "Wait a minute, then load the page again."
	case status == http.StatusServiceUnavailable:
		title = "Not available now"
		p.Action = "Load the page again in a moment."
	default:
		p.Action = "Load the page again. If it fails again, the controller's log has the cause: `journalctl -u nodehitch-controller`."
	}
	if commands := v.Problem.Commands(); commands != "" {
		p.Action = "On a terminal: " + commands + ". " + p.Action
	}
	return content{name: "problem", title: title, data: p}
}

// NotSignedIn is why a sign-in was refused, with what an operator can do.
func NotSignedIn(p api.Problem) string {
	if commands := p.Commands(); commands != "" {
		return p.Detail + "; on a terminal: " + commands
	}
	return p.Detail
}

type signInPage struct {
	Problem string
	Next    string
	Path    string
	Create  command
}

func (v SignIn) content(Frame) content {
	return content{name: "sign-in", title: "Sign in", bare: true, data: signInPage{Problem: v.Problem, Next: v.Next, Path: PathSignIn,
		Create: hitchctl("make a token that may only read", "create", "token", "NAME", "--scope", "viewer")}}
}
