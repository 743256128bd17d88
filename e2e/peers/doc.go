// Package peers compares nodehitch with other programs that keep machines in a state:
// cf-agent, puppet and ansible-core as Debian ships them. Their policies, in the folder
// policy, ask the same of a machine as nodehitch's document of that role. This is checked
// before anything is measured: each program finds nothing to do on a machine that
// nodehitch has converged, and repairs the same drift. `make bench-peers` runs it.
package peers
