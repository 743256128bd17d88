package site

import _ "embed"

// AgentKiller is a program for a machine: it kills the agent as soon as that says that
// it begins or ends an action in which it has not been killed before, each moment once,
// and writes the moments into the file that is its argument.
//
//go:embed killer.py
var AgentKiller []byte
