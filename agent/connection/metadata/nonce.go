package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

// longestWait is how long one call waits for a nonce. By default Nova caches an answer
// for 15 s (metadata_cache_expiration).
const longestWait = 90 * time.Second

// nonceGrammar is the controller's form of 128 bits.
var nonceGrammar = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Wanted describes the nonce to wait for.
type Wanted struct {
	// ServerID is the server id that the machine claims.
	ServerID string
	// Not is a stale nonce that the controller has refused, "" for none.
	Not string
	// Wait is the longest time to wait; 0 means 90 s.
	Wait time.Duration
}

// OtherServer says that the metadata service and the machine disagree on the server id.
// Its nonce cannot be used.
type OtherServer struct{ Claimed, Found, URL string }

func (e *OtherServer) Error() string {
	return fmt.Sprintf("the metadata service says that this machine is the server %s, but the machine claims to be %s, "+
		"so it cannot prove that: check the id in cloud-init, the config drive and DMI (%s)", e.Found, e.Claimed, e.URL)
}

// NonceTimeout says that no nonce appeared in time.
type NonceTimeout struct {
	// Last is the last result, in one line.
	Last string
	// After is how long the call has waited.
	After time.Duration
}

func (e *NonceTimeout) Error() string {
	return fmt.Sprintf("the controller wants proof from this machine's metadata service, but no proof appeared within %v: %s", e.After.Round(time.Second), e.Last)
}

// Nonce waits until the metadata service has the nonce. Before each wait it calls waiting
// with what it has found instead, which never includes a nonce. Errors are *OtherServer,
// *NonceTimeout, or that of ctx.
func (s *Service) Nonce(ctx context.Context, w Wanted, waiting func(why string)) (string, error) {
	begun, limit := time.Now(), w.Wait
	if limit == 0 {
		limit = longestWait
	}
	pause := backoff.Backoff{Min: 500 * time.Millisecond, Max: 3 * time.Second, Factor: 1.5}
	for {
		nonce, err := s.nonce(ctx, w)
		var other *OtherServer
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err == nil, errors.As(err, &other):
			return nonce, err
		case time.Since(begun) >= limit:
			return "", &NonceTimeout{Last: oneLine(err), After: time.Since(begun)}
		}
		waiting(oneLine(err))
		if err := sleep.For(ctx, pause.Next(), nil); err != nil {
			return "", err
		}
	}
}

// oldAnswer explains a stale answer.
const oldAnswer = "; Nova caches answers for 15 s, or for its metadata_cache_expiration"

// nonce reads once. After any error but *OtherServer the caller waits.
func (s *Service) nonce(ctx context.Context, w Wanted) (string, error) {
	content, url, err := s.read(ctx)
	if err != nil {
		return "", fmt.Errorf("the metadata service does not answer: %w; give the server's network a metadata service, "+
			"or turn the check off in the controller (attestation: {nonce: off})", err)
	}
	shown, err := parse(content)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s %w", url, err)
	case !strings.EqualFold(shown.serverID, w.ServerID):
		return "", &OtherServer{Claimed: w.ServerID, Found: shown.serverID, URL: url}
	case shown.nonce == "":
		return "", errors.New(url + " does not show meta." + api.NonceKey + " yet" + oldAnswer)
	case shown.nonce == w.Not:
		return "", errors.New(url + " still shows the previous nonce" + oldAnswer)
	}
	return shown.nonce, nil
}

// shown is the part of the metadata that is used.
type shown struct {
	serverID string
	nonce    string // "" if there is none yet
}

// parse matches names exactly, and accepts a nonce only in its own grammar.
func parse(content []byte) (shown, error) {
	var top, items map[string]json.RawMessage
	var out shown
	if err := json.Unmarshal(content, &top); err != nil {
		return shown{}, fmt.Errorf("is no JSON object: %w", err)
	}
	if err := json.Unmarshal(top["uuid"], &out.serverID); err != nil || !serverGrammar.MatchString(out.serverID) {
		return shown{}, fmt.Errorf("has no uuid of a server")
	}
	meta, ok := top["meta"]
	if !ok { // a server without items
		return out, nil
	}
	if err := json.Unmarshal(meta, &items); err != nil {
		return shown{}, fmt.Errorf("has a meta that is no JSON object")
	}
	item, ok := items[api.NonceKey]
	if !ok {
		return out, nil
	}
	if err := json.Unmarshal(item, &out.nonce); err != nil || !nonceGrammar.MatchString(out.nonce) {
		return shown{}, fmt.Errorf("has a meta.%s that the controller did not write, expected 32 hexadecimal digits; waiting until the controller overwrites it", api.NonceKey)
	}
	return out, nil
}

// serverGrammar is a UUID: it gets into messages.
var serverGrammar = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
