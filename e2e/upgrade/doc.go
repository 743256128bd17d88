// Package upgrade tests that an agent replaces itself by the build that its controller wants,
// and that a build that does not work is taken back: the real agent and controller as
// processes of this machine, the agent under a supervisor that does what its unit does, or the
// agent on machines of the lab, under systemd.
//
// Another build is a copy of the agent with another version in its file. A build that does not
// work is such a copy that asks for a path that no controller has, or badagent.
package upgrade
