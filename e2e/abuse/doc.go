// Package abuse attacks the real controller with what an unauthenticated caller, a machine that
// was taken over, or a careless client may send, and watches what its process takes
// of the machine and whether those who behave are served meanwhile. It attacks
// nothing but a controller of its own on the loopback.
package abuse
