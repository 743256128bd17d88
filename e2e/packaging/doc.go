// Package packaging tests the packages of `make package` where they are used: on machines
// of the lab with real dpkg, apt and systemd, and with real rpm and dnf. A line of the table
// is a step in the life of a package, with what it changed on the machine's disks.
package packaging
