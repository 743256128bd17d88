package powercut

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

const (
	recordBytes = 4096
	// enoughRecords are acknowledged in a boot before a cut aims at their writing.
	enoughRecords = 20
	preciousBytes = 512 << 10
)

func (v *volume) records() string      { return v.exported() + "/records" }
func (v *volume) preciousFile() string { return v.exported() + "/precious" }

// writer appends numbered records from $1 on to $2. After the fsync of a record it says so
// on the console, which the host has at once; $3 is the volume's name there.
const writer = `n=$1
while printf '%04095d\n' $n >>"$2" && sync "$2"; do
	echo "saved $3 $n" >/dev/ttyS0
	n=$((n+1))
done`

// saved is how many records of a volume were acknowledged in all boots.
func (l *life) saved(v *volume) int {
	console, _ := l.node.Console()
	said := "saved " + v.name + " "
	at := bytes.LastIndex(console, []byte(said))
	for at >= 0 {
		number, _, whole := bytes.Cut(console[at+len(said):], []byte("\n"))
		if n, err := strconv.Atoi(strings.TrimSpace(string(number))); whole && err == nil {
			return n + 1
		}
		at = bytes.LastIndex(console[:at], []byte(said)) // the cut was in the line
	}
	return 0
}

// write lets the writer go on where it was with the newest volume.
func (l *life) write(ctx context.Context) error {
	v := l.newest()
	there, err := l.pullRecords(ctx, v)
	if err != nil {
		return err
	}
	// What is there of a record that was cut off goes.
	next := len(there) / recordBytes
	if len(there)%recordBytes > 0 {
		if _, err := l.node.Exec(ctx, "truncate", "-s", strconv.Itoa(next*recordBytes), v.records()); err != nil {
			return err
		}
	}
	l.boot.writing, l.boot.saved = v, l.saved(v)
	_, err = l.node.Exec(ctx, "systemd-run", "--quiet", "--collect", "/bin/sh", "-c", writer, "sh", strconv.Itoa(next), v.records(), v.name)
	return err
}

// pullRecords reads the records; before the first there may be no file.
func (l *life) pullRecords(ctx context.Context, v *volume) ([]byte, error) {
	if l.saved(v) == 0 {
		if _, err := l.node.Exec(ctx, "touch", v.records()); err != nil {
			return nil, err
		}
	}
	return l.node.Pull(ctx, v.records())
}

// writePrecious writes a file to the volume that must never be lost.
func (l *life) writePrecious(ctx context.Context, v *volume) error {
	content := make([]byte, preciousBytes)
	for i := range content {
		content[i] = byte(l.chance.Uint32())
	}
	if err := l.node.Push(ctx, v.preciousFile(), 0o600, content); err != nil {
		return err
	}
	if _, err := l.node.Exec(ctx, "sync", v.preciousFile(), v.exported()); err != nil {
		return err
	}
	v.precious = content
	return nil
}

// lost counts the bytes of a volume that were acknowledged and are not there.
func (l *life) lost(ctx context.Context, v *volume) (int64, error) {
	var lost int64
	if v.precious != nil {
		sum, err := l.node.Exec(ctx, "sha256sum", v.preciousFile())
		if err != nil {
			return preciousBytes, err
		}
		if !strings.HasPrefix(string(sum), fmt.Sprintf("%x ", sha256.Sum256(v.precious))) {
			lost += preciousBytes
		}
	}
	saved := l.saved(v)
	if saved == 0 {
		return lost, nil
	}
	there, err := l.pullRecords(ctx, v)
	if err != nil {
		return lost + int64(saved)*recordBytes, err
	}
	v.readBack = saved
	for n := range saved {
		at := n * recordBytes
		if len(there) < at+recordBytes || !bytes.Equal(there[at:at+recordBytes], fmt.Appendf(nil, "%0*d\n", recordBytes-1, n)) {
			lost += recordBytes
			l.t.Logf("%s: of %d acknowledged records the one at %d is %.60q; the file has %d bytes", v.name, saved, at, there[min(at, len(there)):], len(there))
		}
	}
	return lost, nil
}

// command runs a program of the host.
func command(ctx context.Context, argv ...string) error {
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return nil
}
