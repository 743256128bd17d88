// Package cases runs the black-box cases: each folder here is a situation (what
// disks hold, what the node should become), the steps that happen to it, and what
// must be true after each. The runner knows no case by name.
//
// A machine of a case is a VM, or a container if the case is about what disks hold, with
// a controller in the same lab. It gets the agent from cloud-init. In a VM from a
// snapshot cloud-init does not run, so the test injects the files and the commands of the
// rendered user_data.
//
// What a step does is in the families of steps (steps_*_test.go), what may be
// expected after it in Expect. Each case leaves a record in package results, with
// the bytes that are lost of what it says must be there: 0, or it has failed.
package cases
