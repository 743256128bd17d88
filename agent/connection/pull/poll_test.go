package pull

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const storageNode = `{"apiVersion":"nodehitch/v1","epoch":4,"generation":3,"role":"storage"}`

// answered is the agent's result for an answer.
func answered(status int, body string, header ...string) (Answer, error) {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return read(&http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))})
}

func TestDocumentComesWithItsDigestAndCadence(t *testing.T) {
	got, err := answered(200, storageNode, "ETag", `W/"abc"`, "Nodehitch-Poll-Seconds", "30", "Nodehitch-Converge-Seconds", "300", "Nodehitch-Spread-Seconds", "10")
	if err != nil {
		t.Fatal(err)
	}
	if got.Document.Generation != 3 || got.Digest != "abc" || got.Hold != 30*time.Second || got.Converge != 5*time.Minute || got.Spread != 10*time.Second || got.Closing {
		t.Errorf("got %+v", got)
	}
}

func TestAControllerThatHangsUpSaysSo(t *testing.T) {
	got, err := read(&http.Response{StatusCode: http.StatusNotModified, Close: true, Header: http.Header{"Etag": {`"x"`}}, Body: http.NoBody})
	if err != nil || !got.Closing {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestHeadersThatMakeNoSense(t *testing.T) {
	for _, value := range []string{"", "-1", "soon", "1e9"} {
		if got, err := answered(304, "", "Nodehitch-Poll-Seconds", value); err != nil || got.Hold != 0 {
			t.Errorf("%q: %+v, %v", value, got, err)
		}
	}
	if got, _ := answered(304, "", "Nodehitch-Poll-Seconds", "999999"); got.Hold != time.Hour {
		t.Errorf("held for %v", got.Hold)
	}
	got, err := answered(200, storageNode) // without an ETag
	if err != nil || got.Digest != got.Document.Digest() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestWhatIsNotUnderstoodIsNotTaken(t *testing.T) {
	got, err := answered(200, strings.Replace(storageNode, `"role"`, `"cluster":{},"role"`, 1), "ETag", `"x"`)
	if err != nil || got.Document != nil || got.Invalid == nil || got.Invalid.Generation != 3 || got.Invalid.Epoch != 4 || got.Invalid.Digest != "x" {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = answered(200, "<html>", "ETag", `"x"`)
	if err != nil || got.Invalid == nil || got.Invalid.Generation != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := answered(200, strings.Repeat(" ", maxDocument+1)); err == nil {
		t.Error("a document without end is read")
	}
}

func TestProblemsAreErrors(t *testing.T) {
	_, err := answered(403, `{"type":"urn:nodehitch:problem:revoked","title":"revoked","status":403}`, "Content-Type", "application/problem+json")
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Type != api.ProblemRevoked {
		t.Errorf("got %v", err)
	}
	_, err = answered(302, "", "Location", "https://elsewhere")
	var unexpected *client.UnexpectedAnswer
	if !errors.As(err, &unexpected) {
		t.Errorf("got %v", err)
	}
}
