// Package fleet holds the real controller against thousands of agents: a restart,
// a change for all of them, and what it costs to have them connected. The agents
// are the product's own daemon, with steps that touch nothing, many of them in one
// process beside the controller's.
package fleet
