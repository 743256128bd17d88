package main

import (
	"log/slog"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/host"
	"github.com/nodehitch/nodehitch/agent/storage"
)

// engine has every step that this agent knows, in the order in which they run.
func engine(machine *host.Host, log *slog.Logger, permits storage.Permits, nodeID, stateDirectory string) *converge.Engine {
	e := converge.New(storage.NewSteps(storage.Options{
		Host: machine, Permits: permits, NodeID: nodeID, StateDirectory: stateDirectory, Log: log,
	})...)
	e.Log = log
	return e
}
