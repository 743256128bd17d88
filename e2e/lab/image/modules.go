package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A signed module ends with its signature, a description of it, whose last four bytes
// are the signature's length (big-endian), and this text (Linux, scripts/sign-file.c).
const (
	signedMark        = "~Module signature appended~\n"
	signedDescription = 12
)

// unsign takes the signatures off the root's kernel modules. We have packed them
// ourselves; under emulation the kernel refuses, in one boot of twenty, the first of them
// (EKEYREJECTED), and that is the root disk's.
func unsign(root string) error {
	return filepath.WalkDir(filepath.Join(root, "lib/modules"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".ko") {
			return err
		}
		module, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		bare, err := unsigned(module)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Name(), err)
		}
		return os.WriteFile(path, bare, 0o644)
	})
}

func unsigned(module []byte) ([]byte, error) {
	rest, signed := bytes.CutSuffix(module, []byte(signedMark))
	if !signed {
		return module, nil
	}
	if len(rest) < signedDescription {
		return nil, fmt.Errorf("is no signed module")
	}
	length := int64(binary.BigEndian.Uint32(rest[len(rest)-4:]))
	end := int64(len(rest)) - signedDescription - length
	if end < 0 {
		return nil, fmt.Errorf("its signature of %d bytes is longer than itself", length)
	}
	return rest[:end], nil
}
