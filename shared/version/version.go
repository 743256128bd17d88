// Package version says which build this is.
package version

// Version is set by the linker (see Makefile); "devel" in a plain go build.
var Version = "devel"
