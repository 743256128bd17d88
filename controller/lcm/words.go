package lcm

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// describe names a request: "SCALE_OUT END".
func describe(r api.OperationRequest) string {
	if r.Operation == api.Scale {
		return fmt.Sprintf("%s %s", r.Type, r.Phase)
	}
	return fmt.Sprintf("%s %s", r.Operation, r.Phase)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// waiting lists what each target that is not ready waits for.
func waiting(targets []api.OperationTarget) string {
	var list []string
	for _, t := range targets {
		if !t.Ready {
			list = append(list, fmt.Sprintf("%s (%s): %s, %s", t.Name, t.NodeID, t.Reason, t.Message))
		}
	}
	return strings.Join(list, "; ")
}
