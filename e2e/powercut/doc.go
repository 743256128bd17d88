// Package powercut ends machines and agents in the middle of what they do, from the
// blank disk to the writing of data. After each end the machine, or the agent, starts
// again and has to reach the same state as without it: the volume mounted and exported,
// with one filesystem that was made once; the permit spent, the journal finished; every
// acknowledged record and a file from the beginning there.
//
// TestPowerCuts cuts the power of virtual machines. The cut takes what a power failure
// takes: the memory, and any part of the volumes' write caches that was not flushed
// (lab.Disk.LoseCache). A machine has several volumes in its life, each of
// which comes blank, is hit before it is in use and once more in the boot after that,
// and written to while the next one is formatted. Volumes are slow, so that mkfs takes
// long enough to be hit. The moments come from a seed; what a cut has really hit is
// told afterwards from the controller's records, the volume's file and the console
// (phase), and counted: the figures say what was hit, not what was aimed at.
//
// TestPowerCutsWhileAVolumeGrows cuts it while resize2fs works: volumes are extended while
// the machine runs and while it is off, and records are written meanwhile.
//
// TestPowerCutsOverAnImageLoad cuts it while a registry's machine fetches an image from the
// controller, loads it into Docker and starts a container of it.
//
// TestPowerCutsOverAnAgentUpgrade cuts it while the agent of a storage server downloads another
// build, puts it in its own place, and is on probation; records are written meanwhile.
//
// Both aim at the stage that was hit least, once the machine has come to it (target). What the
// machine's kernel has not written to the root disk is lost, also of a file that has just taken
// another one's name (strictRoot). The cuts notice a build that is not flushed. They have not
// noticed an image that is not flushed: docs/dev/testing.md says which tests do.
//
// TestKilledAtEveryStep kills the agent of a container, with ptrace and so with the
// very binary that is released, before each system call with which it changes
// something outside itself while it formats a disk (boundary); and mkfs with it.
//
// NODEHITCH_SEED is the seed of a run to repeat, as far as machines let themselves be
// repeated. NODEHITCH_CUTS is how many cuts there are; without it four, and 100 with
// NODEHITCH_SUITE=full; ten while a volume grows, an image is loaded or an agent is upgraded.
// NODEHITCH_MACHINES is how many machines
// run side by side.
package powercut
