package heatsignal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

const (
	// stateFile remembers what was sent, and to which URL.
	stateFile = "heat-signal.json"
	// oneCall bounds one attempt.
	oneCall = 30 * time.Second
	// longestWait is the longest time that a wait condition of Heat waits. After it the
	// agent stops trying.
	longestWait = 12 * time.Hour
)

// Where is the wait condition's handle.
type Where struct {
	// URL of the handle at heat-api; without a token, a pre-signed one at heat-api-cfn.
	URL string
	// Token is a Keystone token of the user that Heat creates for this handle.
	Token string
}

// Signaller sends the signal of one machine.
type Signaller struct {
	where   Where
	state   *state.Directory
	log     *slog.Logger
	client  *http.Client
	now     func() time.Time
	backoff backoff.Backoff
}

// New is for a machine whose stack waits. The token and a signed URL are secrets, so they
// are in no log, error or status. TLS uses the system's roots, because Heat is not the
// controller; no proxy is used.
func New(where Where, directory *state.Directory, log *slog.Logger) *Signaller {
	return &Signaller{
		where: where, state: directory, log: log, now: time.Now,
		client: &http.Client{
			Timeout: oneCall, Transport: &http.Transport{DisableKeepAlives: true},
			// The token and the signature are for this host only.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		backoff: backoff.Backoff{Min: time.Second, Max: 5 * time.Minute, Factor: 1.5},
	}
}

// Run waits for a signal, sends it, and returns. changed gets a value after a change of
// what read returns. It retries until Heat has accepted the signal or no wait condition
// can still be waiting. It does not repeat a sent signal, not even after a restart. The
// error is ctx's.
func (s *Signaller) Run(ctx context.Context, changed <-chan struct{}, read func() status.Status) error {
	if s.told() {
		return nil
	}
	var first time.Time
	said := ""
	for {
		now := read()
		signal, ok := Of(&now)
		if !ok {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-changed:
			}
			continue
		}
		if first.IsZero() {
			first = s.now()
		}
		err := s.send(ctx, signal)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			s.log.Info("Heat was signalled", "status", signal.Status, "reason", signal.Reason)
			return s.keep(signal)
		case s.now().Sub(first) > longestWait:
			s.log.Warn("Heat was not signalled while it may have waited; no further attempt is made", "error", err)
			return s.keep(Signal{Status: "GIVEN-UP"})
		case err.Error() != said:
			said = err.Error()
			s.log.Warn("Heat is not signalled yet", "status", signal.Status, "error", err)
		}
		if err := sleep.For(ctx, s.backoff.Next(), nil); err != nil {
			return err
		}
	}
}

// request is the signal for heat-api, or for heat-api-cfn.
func (s *Signaller) request(ctx context.Context, signal Signal) (*http.Request, error) {
	method, content := http.MethodPost, any(signal)
	if s.where.Token == "" {
		method, content = http.MethodPut, signed(signal) // the signature is for PUT
	}
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, s.where.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL in heatSignalUrl cannot be used")
	}
	// heat-api-cfn would treat a form's fields as signed parameters.
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "nodehitch-agent")
	if s.where.Token != "" {
		r.Header.Set("X-Auth-Token", s.where.Token)
	}
	return r, nil
}

// send tries once. The error names no URL.
func (s *Signaller) send(ctx context.Context, signal Signal) error {
	r, err := s.request(ctx, signal)
	if err != nil {
		return err
	}
	answer, err := s.client.Do(r)
	if err != nil {
		var wrapped *url.Error // repeats the URL
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return fmt.Errorf("signalling Heat: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // not logged: it may repeat a secret
	switch answer.StatusCode / 100 {
	case 2:
		return nil
	case 4:
		return fmt.Errorf("signalling Heat: it answered %d: the stack no longer waits, or the token or signature has expired (an hour by default, 15 minutes with a signed URL)", answer.StatusCode)
	}
	return fmt.Errorf("signalling Heat: it answered %d, expected 200", answer.StatusCode)
}

// record is the content of the state file. It has no URL.
type record struct {
	Status string    `json:"status"`
	At     time.Time `json:"at"`
	URL    string    `json:"urlSha256"`
}

func (s *Signaller) digest() string {
	sum := sha256.Sum256([]byte(s.where.URL))
	return hex.EncodeToString(sum[:])
}

// told reports whether this handle has its signal already. A record that cannot be read
// counts as not sent, because sending the same signal twice is harmless.
func (s *Signaller) told() bool {
	text, err := s.state.Read(stateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		s.log.Warn("the record of what was signalled to Heat cannot be read", "error", err)
		return false
	}
	return r.URL == s.digest()
}

// keep records the signal. It always returns nil, because a repeated signal after a
// restart is harmless.
func (s *Signaller) keep(signal Signal) error {
	text, err := json.Marshal(record{Status: signal.Status, At: s.now().UTC(), URL: s.digest()})
	if err == nil {
		err = s.state.Write(stateFile, append(text, '\n'))
	}
	if err != nil {
		s.log.Warn("Heat will be signalled again after a restart", "error", err)
	}
	return nil
}
