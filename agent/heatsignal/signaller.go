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
)

const (
	// stateFile remembers what was sent, and to which URL.
	stateFile = "heat-signal.json"
	// oneCall bounds one attempt.
	oneCall = 30 * time.Second
	// longestWait is the longest that a wait condition of Heat waits: who has not got
	// through by then need not try any more.
	longestWait = 12 * time.Hour
)

// Signaller sends the signal of one machine.
type Signaller struct {
	url     string
	state   *state.Directory
	log     *slog.Logger
	client  *http.Client
	now     func() time.Time
	backoff backoff.Backoff
}

// New is for a machine whose configuration has the URL, which is pre-signed: whoever
// knows it may signal, so it is in no log, no error and no status. TLS is by the
// system's roots, for Heat is not the controller; no proxy is used.
func New(url string, directory *state.Directory, log *slog.Logger) *Signaller {
	return &Signaller{
		url: url, state: directory, log: log, now: time.Now,
		client: &http.Client{
			Timeout: oneCall, Transport: &http.Transport{DisableKeepAlives: true},
			// The signature is for this host and path.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		backoff: backoff.Backoff{Min: time.Second, Max: 5 * time.Minute, Factor: 1.5},
	}
}

// Run waits until there is something to tell, tells it, and returns. changed gets a
// value after a change of what read returns. It tries until Heat has taken the
// signal, or until no wait condition can be waiting any more; what it has told it
// does not tell again, after a restart neither. The error is ctx's.
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
			s.log.Info("Heat knows", "status", signal.Status, "reason", signal.Reason)
			return s.keep(signal)
		case s.now().Sub(first) > longestWait:
			s.log.Warn("Heat was not told in all the time that it may have waited; it is not tried any more", "error", err)
			return s.keep(Signal{Status: "GIVEN-UP"})
		case err.Error() != said:
			said = err.Error()
			s.log.Warn("Heat is not told yet", "status", signal.Status, "error", err)
		}
		if err := backoff.Sleep(ctx, s.backoff.Next(), nil); err != nil {
			return err
		}
	}
}

// send tries once. The error names no URL.
func (s *Signaller) send(ctx context.Context, signal Signal) error {
	body, err := json.Marshal(signal)
	if err != nil {
		return err
	}
	// PUT and this type: the signature is for the one, and heat-api-cfn would take a
	// form's fields for signed ones.
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, s.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL in heatSignalURL cannot be used")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "nodehitch-agent")
	answer, err := s.client.Do(r)
	if err != nil {
		var wrapped *url.Error // repeats the URL
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return fmt.Errorf("signalling Heat: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // its words may repeat the signature
	switch {
	case answer.StatusCode/100 == 2:
		return nil
	case answer.StatusCode/100 == 4:
		return fmt.Errorf("signalling Heat: it answered %d: the stack waits no more, or the signed URL has expired (Keystone takes it for 15 minutes, its [credential] auth_ttl)", answer.StatusCode)
	}
	return fmt.Errorf("signalling Heat: it answered %d, expected 200", answer.StatusCode)
}

// record is the content of the state file. It has no URL.
type record struct {
	Status string    `json:"status"`
	At     time.Time `json:"at"`
	URL    string    `json:"urlSHA256"`
}

func (s *Signaller) digest() string {
	sum := sha256.Sum256([]byte(s.url))
	return hex.EncodeToString(sum[:])
}

// told says that this URL needs no signal any more. What cannot be read was not
// told: to tell Heat the same twice does no harm.
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
		s.log.Warn("what was signalled to Heat is not known any more", "error", err)
		return false
	}
	return r.URL == s.digest()
}

// keep remembers. It returns nil: that it may be told again after a restart is no
// reason to stop anything.
func (s *Signaller) keep(signal Signal) error {
	text, err := json.Marshal(record{Status: signal.Status, At: s.now().UTC(), URL: s.digest()})
	if err == nil {
		err = s.state.Write(stateFile, append(text, '\n'))
	}
	if err != nil {
		s.log.Warn("Heat will be told again after a restart", "error", err)
	}
	return nil
}
