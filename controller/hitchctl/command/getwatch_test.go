package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
)

// A controller that is away for a moment is said and does not end a watch; what cannot be shown does.
func TestWatchSaysThatItTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []int{http.StatusServiceUnavailable, http.StatusOK}
		poll := func(context.Context, string, string) (*http.Response, error) {
			status := answers[0]
			answers = answers[1:]
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"items": [7]}`))}, nil
		}
		var said bytes.Buffer
		full := errors.New("the disk is full")
		err := watch(t.Context(), &app{err: screen.Plain(&said, 0)}, poll, func(list *struct{ Items []int }) error {
			if len(list.Items) != 1 || list.Items[0] != 7 {
				t.Errorf("it shows %v", list.Items)
			}
			return full
		})
		if !errors.Is(err, full) || strings.Count(said.String(), "(trying again)") != 1 {
			t.Errorf("%v, and it says %q", err, said.String())
		}
	})
}
