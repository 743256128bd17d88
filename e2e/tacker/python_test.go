package tacker

import (
	"os"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
)

// inRoot runs a program in the root folder $0 of a system, which it does not change, with the
// folders before "--" where they are on the host.
const inRoot = `mount -t tmpfs tmpfs /run && mkdir /run/upper /run/work /run/root &&
mount -t overlay overlay -o "lowerdir=$0,upperdir=/run/upper,workdir=/run/work" /run/root
while [ "$1" != -- ]; do mkdir -p "/run/root$1" && mount --bind "$1" "/run/root$1"; shift; done; shift
exec chroot /run/root sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"`

// interpreter is the argv of Python: the one that TACKER_PYTHON names, that of the system which
// NODEHITCH_SYSTEM names, or the host's.
func interpreter(t *testing.T, folder string) []string {
	t.Helper()
	if named := os.Getenv("TACKER_PYTHON"); named != "" {
		return []string{named}
	}
	if os.Getenv(image.EnvSystem) == "" {
		return []string{"python3"}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"unshare", "--mount", "--propagation", "private", "sh", "-euc", inRoot, rootOf(t), "/dev", here, folder, "--", "/usr/bin/python3"}
}

// rootOf is the root folder of the machines of the system that NODEHITCH_SYSTEM names.
func rootOf(t *testing.T) string {
	t.Helper()
	labtest.Require(t)
	cache, err := image.OpenCache("", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	system, err := image.System("").OrDefault()
	if err != nil {
		t.Fatal(err)
	}
	root, err := cache.Nspawn(t.Context(), system)
	if err != nil {
		t.Fatal(err)
	}
	return root
}
