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
)

// longestWait is how long a nonce is waited for at one time. Nova keeps an answer for
// 15 s where metadata_cache_expiration is its default.
const longestWait = 90 * time.Second

// nonceGrammar is how the controller writes 128 bits.
var nonceGrammar = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Wanted is the nonce that is looked for.
type Wanted struct {
	// ServerID is the server that the machine believes it is.
	ServerID string
	// Not is a nonce that the controller has refused: an old answer. "" for none.
	Not string
	// Wait is how long it is waited for at most; 90 s when 0.
	Wait time.Duration
}

// OtherServer says that the metadata service takes this machine for another server
// than the machine does. No nonce of it will do.
type OtherServer struct{ Claimed, Found, URL string }

func (e *OtherServer) Error() string {
	return fmt.Sprintf("the metadata service says that this machine is the server %s, and it says itself that it is %s, "+
		"so it cannot prove that: look at what cloud-init, the config drive or DMI say of it (%s)", e.Found, e.Claimed, e.URL)
}

// Unproven says that the nonce did not show.
type Unproven struct {
	// Why is what was found last, in one line.
	Why string
	// After is for how long it was waited for.
	After time.Duration
}

func (e *Unproven) Error() string {
	return fmt.Sprintf("the controller wants proof from the metadata service of this machine, which it has not got within %v: %s", e.After.Round(time.Second), e.Why)
}

// Nonce waits until the metadata service shows the nonce. waiting is told, before each wait, what there is instead; it never has a nonce in it. Errors are
// *OtherServer, *Unproven, or that of ctx.
func (s *Service) Nonce(ctx context.Context, w Wanted, waiting func(why string)) (string, error) {
	begun, limit := time.Now(), w.Wait
	if limit == 0 {
		limit = longestWait
	}
	pause := backoff.Backoff{Min: 500 * time.Millisecond, Max: 3 * time.Second, Factor: 1.5}
	for {
		nonce, err := s.look(ctx, w)
		var other *OtherServer
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err == nil, errors.As(err, &other):
			return nonce, err
		case time.Since(begun) >= limit:
			return "", &Unproven{Why: oneLine(err), After: time.Since(begun)}
		}
		waiting(oneLine(err))
		if err := backoff.Sleep(ctx, pause.Next(), nil); err != nil {
			return "", err
		}
	}
}

// oldAnswer is what to know of an answer that is not what it will be.
const oldAnswer = "; Nova shows an old answer for 15 s, or what its metadata_cache_expiration says"

// look reads once. Any error but *OtherServer is a reason to wait.
func (s *Service) look(ctx context.Context, w Wanted) (string, error) {
	content, url, err := s.read(ctx)
	if err != nil {
		return "", fmt.Errorf("the metadata service does not answer: %w; the network of the server needs one, "+
			"or the controller has to do without (attestation: {nonce: off})", err)
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
		return "", errors.New(url + " still shows the nonce of before" + oldAnswer)
	}
	return shown.nonce, nil
}

// shown is what of the metadata is of use.
type shown struct {
	serverID string
	nonce    string // "" where there is none yet
}

// parse takes names as they are written, and of the nonce nothing but its own grammar.
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
		return shown{}, fmt.Errorf("has a meta.%s that the controller did not write, expected 32 hexadecimal digits; waiting until it is written over", api.NonceKey)
	}
	return out, nil
}

// serverGrammar is a UUID: it gets into messages.
var serverGrammar = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
