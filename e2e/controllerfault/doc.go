// Package controllerfault ends the real controller at every transaction of its
// store, takes its disk away, and damages its files: what was acknowledged has to
// be there afterwards, or a start has to say that it is not. Nothing of it is in a
// released binary: the points at which it is killed are put into a copy of bbolt,
// with which the test builds a controller of its own.
package controllerfault
