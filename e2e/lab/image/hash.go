package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Key is the hash of parts, short enough for a folder's name, for images that
// are made from others. Parts are kept apart by their lengths.
func Key(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s\n", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
