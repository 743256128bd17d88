// Package topology says what the servers, connection points and volumes of a VNF's
// stack mean: whether they are valid, one form for each thing, and which role each
// server plays. It is pure: package stack finds the topology out.
package topology
