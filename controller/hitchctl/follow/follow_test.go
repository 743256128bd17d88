package follow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/hitchctl/follow"
	"github.com/nodehitch/nodehitch/shared/client"
)

type list struct{ Items []string }

// answer is one answer of an endpoint, after a delay.
type answer struct {
	after  time.Duration
	status int
	etag   string
	body   string
	cut    bool // before the end of the body
	err    error
}

func ok(etag string, items ...string) answer {
	text, _ := json.Marshal(list{items})
	return answer{status: 200, etag: etag, body: string(text)}
}

// follow runs Changes against the answers, one after the other; the context ends
// after the last. It returns what was told and asked.
func run(t *testing.T, answers ...answer) (told, asked []string, took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		started := time.Now()
		poll := func(ctx context.Context, version, hold string) (*http.Response, error) {
			if len(answers) == 0 {
				cancel()
				return nil, ctx.Err()
			}
			a := answers[0]
			answers = answers[1:]
			asked = append(asked, strings.TrimSpace(version+" "+hold))
			select {
			case <-time.After(a.after):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if a.err != nil {
				return nil, a.err
			}
			end := iotest.ErrReader(io.EOF)
			if a.cut {
				end = iotest.ErrReader(io.ErrUnexpectedEOF)
			}
			return &http.Response{
				StatusCode: a.status, Body: io.NopCloser(io.MultiReader(strings.NewReader(a.body), end)),
				Header: http.Header{"Etag": {a.etag}, "Content-Type": {"application/json"}},
			}, nil
		}
		err = follow.Changes(ctx, poll, func(u follow.Update[list]) {
			if u.Err != nil {
				told = append(told, "error")
				return
			}
			told = append(told, strings.Join(u.Content.Items, ","))
		})
		took = time.Since(started)
	})
	return told, asked, took, err
}

func TestTellsOfEachChange(t *testing.T) {
	told, asked, _, err := run(t, ok("1", "a"), answer{after: 30 * time.Second, status: 304, etag: "1"}, ok("2", "a", "b"))
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"a", "a,b"}, told); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"", "1 30s", "1 30s"}, asked); diff != "" {
		t.Error(diff)
	}
}

// An endpoint without an ETag, or one that does not hold.
func TestTheSameContentIsNoChange(t *testing.T) {
	told, _, took, _ := run(t, ok("", "a"), ok("", "a"), ok("", "a"), ok("", "b"))
	if diff := cmp.Diff([]string{"a", "b"}, told); diff != "" {
		t.Error(diff)
	}
	if took < time.Second {
		t.Errorf("four polls within %s: a controller that does not hold would be stormed", took)
	}
}

func TestGoesOnWhereTheControllerIsAway(t *testing.T) {
	gone := &client.Unreachable{Where: "https://c", Err: errors.New("connection refused")}
	told, asked, took, err := run(t, ok("1", "a"), answer{err: gone}, answer{status: 503, body: "x"}, answer{status: 200, body: `{"Items"`, cut: true}, ok("9", "a"))
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// What it is like now is told again: a display has said that there is no news.
	if diff := cmp.Diff([]string{"a", "error", "error", "error", "a"}, told); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"", "1 30s", "", "", ""}, asked); diff != "" {
		t.Error(diff)
	}
	if took < 15*time.Second {
		t.Errorf("three failures were followed by polls within %s", took)
	}
}

func TestAPollThatIsNeverAnswered(t *testing.T) {
	told, _, took, _ := run(t, ok("1", "a"), answer{after: time.Hour}, ok("1", "b"))
	if diff := cmp.Diff([]string{"a", "error", "b"}, told); diff != "" {
		t.Error(diff)
	}
	if took > 2*time.Minute {
		t.Errorf("waited %s", took)
	}
}

func TestEndsWhereItIsOfNoUse(t *testing.T) {
	for _, status := range []int{200, 400, 401, 403, 404} { // 200 with what is no JSON
		told, _, _, err := run(t, ok("1", "a"), answer{status: status, body: "x"}, ok("1", "b"))
		if client.Status(err) != status {
			t.Errorf("%d: got %v", status, err)
		}
		if fmt.Sprint(told) != "[a]" {
			t.Errorf("%d: told %v", status, told)
		}
	}
}
