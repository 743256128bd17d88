// Package cases runs the black-box cases: each folder here is a situation (what
// disks hold, what the node should become), the steps that happen to it, and what
// must be true after each. The runner knows no case by name.
//
// A machine of a case is a VM with a controller in the same lab. It gets the
// agent as it would from cloud-init: the files and the commands of the rendered
// user_data.
package cases
