// Package pull polls for this node's configuration and reports its status, over a link.
package pull

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/document"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/version"
)

// maxDocument bounds a configuration.
const maxDocument = 8 << 20

// Answer is the result of a poll.
type Answer struct {
	// Document is nil if the document has not changed, and if Invalid is set.
	Document *api.NodeConfig
	// Digest of the document, from its ETag.
	Digest string
	// Invalid is a document that this agent does not understand.
	Invalid *Invalid
	// Hold is how long the controller may hold the next poll, and Converge how often to
	// plan; 0 if it does not say.
	Hold, Converge time.Duration
	// Spread is the time over which agents that lose the controller spread their
	// reconnections; 0 if it does not say.
	Spread time.Duration
	// Wanted is the agent that the controller wants here, nil if it does not say.
	Wanted *api.WantedAgent
	// ControllerURLs are further addresses of the controller.
	ControllerURLs []string
	// Closing says that the controller closes the connection after this answer.
	Closing bool
	// Waited is how long the last attempt waited for its answer, also a failed one.
	Waited time.Duration
}

// Invalid is a document that cannot be used. The previous one stays in force.
type Invalid struct {
	// Generation and Epoch are 0 if they could not be read.
	Generation, Epoch int64
	Digest            string
	// Faults is a fault.List.
	Faults error
}

// Request is what a poll asks for.
type Request struct {
	// Digest of the document that the agent has. With a digest the controller holds the
	// poll until there is another document or the hold time is over; with "" it answers
	// at once.
	Digest string
	// Generation of that document; 0 if it could not be read.
	Generation int64
	// Wait is the longest hold time; 0 leaves it to the controller.
	Wait time.Duration
	// Limit ends the request, for each URL; it must be longer than the hold time.
	Limit time.Duration
}

// Poll asks for the configuration.
func Poll(ctx context.Context, l *link.Link, r Request) (Answer, error) {
	var answer Answer
	var asked atomic.Pointer[time.Time] // set by the transport's goroutine
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { now := time.Now(); asked.Store(&now) },
	})
	err := l.Do(ctx, func(ctx context.Context, c *client.Controller) error {
		ctx, cancel := context.WithTimeout(ctx, r.Limit)
		defer cancel()
		agent := api.ThisAgent(version.Version).Header()
		params := &api.GetNodeConfigParams{NodehitchAgent: &agent}
		if r.Digest != "" {
			tag := `"` + r.Digest + `"`
			params.IfNoneMatch = &tag
		}
		if r.Digest != "" && r.Generation != 0 {
			generation := strconv.FormatInt(r.Generation, 10)
			params.Generation = &generation
		}
		if r.Wait > 0 {
			wait := r.Wait.String()
			params.Wait = &wait
		}
		resp, err := c.GetNodeConfig(ctx, params, once)
		if err != nil {
			return err
		}
		answer, err = read(resp)
		return err
	})
	if at := asked.Load(); at != nil {
		answer.Waited = time.Since(*at)
	}
	return answer, err
}

// once stops the transport from repeating the request on its own when a connection ends
// without an answer: all agents of a stopped controller would do so at the same moment.
// The transport repeats only requests whose body it can send again; this empty body is
// not one of them.
func once(_ context.Context, r *http.Request) error {
	r.Body = io.NopCloser(strings.NewReader(""))
	return nil
}

func read(resp *http.Response) (Answer, error) {
	answer := Answer{
		Digest:   strings.Trim(strings.TrimPrefix(resp.Header.Get("ETag"), "W/"), `"`),
		Hold:     seconds(resp, "Nodehitch-Poll-Seconds"),
		Converge: seconds(resp, "Nodehitch-Converge-Seconds"),
		Spread:   seconds(resp, "Nodehitch-Spread-Seconds"),
		Closing:  resp.Close,

		Wanted: wantedAgent(resp.Header), ControllerURLs: controllerURLs(resp.Header),
	}
	switch resp.StatusCode {
	case http.StatusNotModified:
		return answer, resp.Body.Close()
	case http.StatusOK:
	default:
		return Answer{}, client.ProblemOf(resp)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return Answer{}, &client.Unreachable{Where: "the controller", Found: "the configuration did not arrive whole", Err: err}
	}
	if len(content) > maxDocument {
		return Answer{}, fmt.Errorf("the configuration has more than %d bytes", maxDocument)
	}
	answer.decode(content)
	return answer, nil
}

func (a *Answer) decode(content []byte) {
	doc, err := document.Decode(content)
	if err == nil {
		a.Document = doc
		if a.Digest == "" {
			a.Digest = doc.Digest()
		}
		return
	}
	var head struct {
		Generation json.Number `json:"generation"`
		Epoch      json.Number `json:"epoch"`
	}
	_ = json.Unmarshal(content, &head) // what cannot be read stays 0
	a.Invalid = &Invalid{Digest: a.Digest, Faults: err}
	a.Invalid.Generation, _ = head.Generation.Int64()
	a.Invalid.Epoch, _ = head.Epoch.Int64()
}

// seconds reads a header, limited to an hour.
func seconds(resp *http.Response, name string) time.Duration {
	n, err := strconv.Atoi(resp.Header.Get(name))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}

// Report sends this node's status.
func Report(ctx context.Context, l *link.Link, status api.NodeStatus) error {
	return l.Short(ctx, func(ctx context.Context, c *client.Controller) error {
		return client.Done(c.PutNodeStatus(ctx, status))
	})
}
