package page

import (
	"regexp"
	"strings"
)

// command is a line of hitchctl to copy, and what it does. Words in capitals are for the operator
// to fill in.
type command struct {
	Does, Line string
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_%+=:,./@-]+$`)

// hitchctl is a command of hitchctl with its arguments, quoted for a shell.
func hitchctl(does string, arguments ...string) command {
	words := []string{"hitchctl"}
	for _, a := range arguments {
		if !plainWord.MatchString(a) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return command{Does: does, Line: strings.Join(words, " ")}
}
