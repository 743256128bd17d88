package daemon_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// onProbation makes this process a new build of the agent that does not become healthy.
func (n *node) onProbation() {
	n.t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		n.t.Fatal(err)
	}
	sum := sha256.Sum256(self)
	record, err := json.Marshal(map[string]any{
		"from": map[string]string{"version": "v1", "sha256": strings.Repeat("0", 64)}, "to": map[string]string{"version": "v2", "sha256": hex.EncodeToString(sum[:])},
		"until": map[string]any{"bootId": "x", "nanoseconds": int64(1000 * time.Hour)}, "probationSeconds": 300, "starts": 1,
		"before": []any{map[string]any{"section": "another", "sha256": "", "conditions": []string{"NeverTrue"}}},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.write("upgrade.json", record)
}

// A roll-back brings the identity of before back, and the previous build must be able to
// read the last known good.
func TestABuildOnProbationLeavesWhatThePreviousOneNeeds(t *testing.T) {
	c, n := due(t, 2*time.Hour, 59*time.Minute)
	identity, good := n.read("identity.pem"), n.read("last-known-good.json")
	n.onProbation()
	renewals := c.count("POST /v1/node/certificate")
	c.give(2, 1, "")
	stop := n.start()
	until(t, "Ready for another document", n.ready(c, 2))
	until(t, "it says that it is on probation", func() bool {
		u := n.status().Node.AgentUpgrade
		return u != nil && u.Reason == "Probation" && strings.Contains(u.Message, "NeverTrue is missing")
	})
	if c.count("POST /v1/node/certificate") != renewals || !bytes.Equal(n.read("identity.pem"), identity) {
		t.Error("the certificate was renewed")
	}
	if !bytes.Equal(n.read("last-known-good.json"), good) {
		t.Error("the last known good was replaced")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	n.write("identity.pem", []byte("x"))
	enrollments := c.count("POST /v1/enroll")
	n.start()
	until(t, "it says why it does not enroll", func() bool { return strings.Contains(n.status().Controller.LastError, "on probation") })
	if c.count("POST /v1/enroll") != enrollments {
		t.Error("it has enrolled again")
	}
}
