// Package tacker tests the Tacker integration of packaging/tacker: the hooks of the driver in
// a real Python, as they are installed, with the real controller as a process of its own. The
// cloud is the fake of openstacktest, nodes are loopback.Machine.
package tacker
