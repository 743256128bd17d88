// Package version says which build of nodehitch a binary is.
package version

// Version is set by the linker (see Makefile); "devel" in a plain go build.
var Version = "devel"
