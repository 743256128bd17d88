package command

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// parseSpan reads a duration as people type it. Days are 24 hours: 30d, 1d12h.
func parseSpan(text string) (time.Duration, error) {
	var days, rest time.Duration
	head, tail, found := strings.Cut(text, "d")
	if !found {
		head, tail = "0", text
	}
	n, err := strconv.ParseUint(head, 10, 16) // 65535 days fit into a Duration
	if days = time.Duration(n) * 24 * time.Hour; err == nil && tail != "" {
		rest, err = time.ParseDuration(tail)
	}
	if err != nil || text == "" || rest < 0 || days+rest < 0 {
		return 0, errors.New("expected a duration such as 90s, 5m, 2h or 3d")
	}
	return days + rest, nil
}
