// Package stacks shows nodehitch inside a real OpenStack: real Heat makes the VNFs
// from the project's own templates, real Nova hands out user_data and nonce, and the
// lab plays the hypervisor, so that each server of the stack is a machine that boots.
package stacks
