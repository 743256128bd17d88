// Package abuse attacks the real controller with what an unauthenticated caller, a machine that
// was compromised, or a careless client may send. It watches how much of the machine the
// controller takes, and whether well-behaved clients are served meanwhile. It attacks
// only a controller of its own on the loopback.
package abuse
