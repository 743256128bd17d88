// Package peers sets nodehitch beside what else keeps machines in a state: cf-agent,
// puppet and ansible-core as Debian ships them. Their policies, in the folder policy,
// ask the same of a machine as nodehitch's document of that role does: that each finds
// nothing to do on a machine that nodehitch has converged, and repairs the same drift to
// the same end, is seen before anything is measured. `make bench-peers` runs it.
package peers
