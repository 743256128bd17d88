// Package fleet tests the real controller with thousands of agents: a restart, a change
// for all of them, and what their connections cost. The agents
// are the product's own daemon, with steps that touch nothing, many of them in one
// process beside the controller's.
package fleet
