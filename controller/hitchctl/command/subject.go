package command

import (
	"errors"
	"path"
	"strings"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/request"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// subject is what an answer of the controller is about. It puts the controller's words, which
// are those of the API, into those of the command line.
type subject struct {
	// instance is the id of the instance, "" for none.
	instance string
	// flags are those that the members of the request were made of.
	flags map[string]string
}

// subjectError is an error with what it is about.
type subjectError struct {
	error
	subject
}

func (e subjectError) Unwrap() error { return e.error }

func subjectOf(err error) subject {
	var e subjectError
	errors.As(err, &e)
	return e.subject
}

// wholeSentence are the problems whose detail says all that the title does, before its colon
// if it has one.
var wholeSentence = map[string]bool{
	api.ProblemConflict: true, api.ProblemNotFound: true, api.ProblemUnauthorized: true, api.ProblemForbidden: true,
}

// problem is what went wrong, and a line for each fault.
func (of subject) problem(p api.Problem) string {
	text := describe.Problem(p)
	switch {
	case p.Detail == "":
	case wholeSentence[p.Type]:
		headline, rest, more := strings.Cut(p.Detail, ": ")
		p.Title = headline
		text = describe.Problem(p)
		if more {
			text += ": " + rest
		}
	default:
		text += ": " + p.Detail
	}
	text = of.words(text)
	for _, f := range p.InvalidParams {
		line := of.fault(f)
		if p.Type == api.ProblemFilesMissing {
			line = f.Message + " (" + namedIn(f) + ")"
		}
		text += "\n  " + screen.Clean(line)
	}
	return text
}

// fault is a fault at the flag that its member was made of.
func (of subject) fault(f fault.Fault) string {
	member, rest, below := strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
	if flag := of.flags[member]; flag != "" {
		f.Pointer = flag
		if below {
			f.Pointer += " /" + rest
		}
	}
	f.Message = of.words(f.Message)
	return f.String()
}

// words is a text with flags for the members that it names in backticks, and with the short
// id of the instance, which commands take.
func (of subject) words(text string) string {
	for member, flag := range of.flags {
		text = strings.ReplaceAll(text, "`"+member+"`", "`"+flag+"`")
	}
	if of.instance != "" {
		short := describe.Short(of.instance)
		text = strings.ReplaceAll(text, of.instance, short)
		text = strings.ReplaceAll(text, "/vnf_instances/"+short, "/vnf_instances/"+of.instance) // the API takes it whole
	}
	return text
}

// namedIn is the part of the parameters that names a package file.
func namedIn(f fault.Fault) string {
	_, member := splitPlace(request.Finding{Fault: f})
	if object := path.Dir(member); object != "." {
		return object
	}
	return member
}
