// Package trust proves who gets in and who does not: every case is an attempt that
// must be refused, or must leave nothing behind, made from outside on the real
// controller process, the real agent process and the downloader of user_data. Each
// leaves a record (package results): a request that was answered and must not have
// been is one unauthorised answer, and so is a secret that reached the wrong party.
//
// Load, and what is meant to exhaust the controller, is e2e/fleet's.
package trust
