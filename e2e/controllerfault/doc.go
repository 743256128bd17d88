// Package controllerfault ends the real controller at every transaction of its
// store, takes its disk away, and damages its files: everything acknowledged has to be
// there afterwards, or the start is refused with the reason. Released binaries have none
// of this: the points at which the controller is killed are put into a copy of bbolt, and
// the test builds a controller with it.
package controllerfault
