// Package agentfault breaks what the agent depends on: its own files, the disk that
// they are on, its process, the network and the proxies before the controller. The
// agent and the controller are the real binaries. If a case changes the machine itself,
// it uses a machine of the lab; otherwise the agent is a worker on this machine, which
// changes nothing.
package agentfault
