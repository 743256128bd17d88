// Package tree holds the tests of the source tree itself: every package says what
// it is for, imports go in one direction, and the agent stays small.
package tree
