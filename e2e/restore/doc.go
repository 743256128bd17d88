// Package restore proves what a restore of an older backup does not bring back: the
// real controller as a process of its own, its backup and restore by the commands
// that an operator has, and nodes with real certificates over TLS.
package restore
