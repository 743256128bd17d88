// Package versions runs builds of different ages against each other: the oldest that is
// supported, this one, and a synthetic next release. The file oldest names the first by
// its commit and says why it is that one; newer.patch makes the last out of this tree.
//
// A controller works with agents of its own release and of the one before. So an upgrade is:
// the controller first, then the agents. Images are often newer than the installed release,
// so every controller is also tested with newer agents.
package versions
