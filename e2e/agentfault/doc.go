// Package agentfault breaks what the agent stands on: its own files, the disk that
// they are on, its process, the network and what is on the way to the controller.
// The agent and the controller are the real binaries. Where the machine itself is to
// be changed, it is one of the lab's; else the agent is a worker, which changes
// nothing, on this machine.
package agentfault
