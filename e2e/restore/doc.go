// Package restore shows what a restore of an older backup does not bring back. It uses the
// real controller as a process of its own, the operator's commands for backup and restore,
// and nodes with real certificates over TLS.
package restore
