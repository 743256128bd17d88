package stacks

import (
	"fmt"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// tokenLife is how long Keystone's tokens are good in this test, in seconds. With less
// OpenStack's own services, which renew theirs half a minute before the end, do not work.
const tokenLife = 180

// TestTokenExpires lets the controller's token expire between two stack observations.
func TestTokenExpires(t *testing.T) {
	r := results.Begin(t, suite, "token-expires", "the controller renews a token that expires between two stack observations")
	w := newWorld(t, map[string]string{"keystone": fmt.Sprintf("[token]\nexpiration = %d", tokenLife)})
	v := w.newPlain(1)
	logins := func() float64 { return w.metricSum("nodehitch_cloud_requests_total", `service="identity"`) }
	v.operate(api.Instantiate, "--phase=START")
	before := logins()
	end := time.Now().Add(tokenLife * time.Second)
	w.Until("the token has expired", func() error {
		if left := time.Until(end); left > 0 {
			return fmt.Errorf("in %v", left)
		}
		return nil
	})
	v.powerOn()
	v.operate(api.Instantiate)
	v.attested(map[api.Role]int{api.RoleMaster: 1, api.RoleWorker: 1})
	if logins() == before {
		t.Error("the controller did not log in again")
	}
	r.Figure("logins", "%.0f, then %.0f", before, logins())
}
