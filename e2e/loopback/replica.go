package loopback

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SealKey makes a seal key for controllers that share a store, and returns its file.
func SealKey(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seal.key")
	if err := os.WriteFile(file, []byte("the seal key of a test's replicas"[:32]), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Replica is the settings of a controller that shares the store in an etcd with others of the same
// seal key, and that serves as a follower while another one is the leader.
func Replica(t testing.TB, id, sealKey string, endpoints ...string) map[string]string {
	t.Helper()
	address := FreeAddress(t)
	return map[string]string{
		"sealKeyFile": sealKey,
		"store":       "{etcd: {endpoints: [" + strings.Join(endpoints, ", ") + "]}}",
		"replica":     fmt.Sprintf(`{id: %s, url: "https://%s", listen: "%s"}`, id, address, address),
	}
}
