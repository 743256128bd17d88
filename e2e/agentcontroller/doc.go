// Package agentcontroller shows that the agent and the controller understand
// each other: the real controller as a process of its own, and the real agent
// with steps that touch nothing, over TLS on the loopback. What the steps do to a
// machine is tested in e2e/cases.
package agentcontroller
