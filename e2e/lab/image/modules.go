package image

import (
	"bytes"
	"context"
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

// bareModules makes the root's kernel modules plain files, as the initrd has to have them:
// not compressed, as Debian 13's are, and not signed.
func bareModules(ctx context.Context, root string) error {
	if err := unpackModules(ctx, root); err != nil {
		return err
	}
	return unsign(root)
}

// unpackModules takes the compression off the root's kernel modules, and writes anew what
// names their files.
func unpackModules(ctx context.Context, root string) error {
	tree, err := one(filepath.Join(root, "lib/modules/*"))
	if err != nil {
		return err
	}
	unpack := []string{"--decompress", "--"}
	err = filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".ko.xz") {
			unpack = append(unpack, path)
		}
		return err
	})
	if err != nil || len(unpack) == 2 {
		return err
	}
	if err := command(ctx, nil, "xz", unpack...); err != nil {
		return err
	}
	return command(ctx, nil, "chroot", root, "depmod", filepath.Base(tree))
}

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
