// Package release tests the files that `make package` writes: what is in the packages, that
// lintian and rpmlint accept them, that the same tree gives the same bytes, and that
// checksums and SBOM say the truth. Package packaging installs them on machines.
package release
