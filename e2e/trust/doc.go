// Package trust tests authentication and authorisation: every case is an attempt that must
// be refused, or must leave nothing behind, made from outside on the real controller
// process, the real agent process and the downloader of user_data. Each case leaves a
// record (package results): a request that was answered and must not have been is one
// unauthorised answer, and so is a secret that reached the wrong party.
//
// e2e/fleet and e2e/abuse test load and overload.
package trust
