package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/connection/pull"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	// tryURL bounds the poll that proves a URL: meanwhile no other one is sent.
	tryURL = 10 * time.Second
	// tryURLAgain is how long a URL that did not prove itself is left alone.
	tryURLAgain = 10 * time.Minute
)

// learning is what the controller says of where else it is, and what has proven true.
type learning struct {
	// epoch of the newest document: a URL that was proven in another one leads to what
	// was the controller before a restore, or to a copy of it.
	epoch int64
	known []state.ControllerURL
	// tried is when each URL failed last.
	tried map[string]time.Time
}

// recall takes up what was learned before a restart.
func (d *Daemon) recall(epoch int64) learning {
	known, err := d.State.ControllerURLs()
	if err != nil {
		d.Log.Error("the learned addresses of the controller are not used; it tells them again", "error", err)
	}
	return learning{epoch: epoch, known: known, tried: map[string]time.Time{}}
}

// urls are those that count, before those of agent.yaml, which are never given up.
func (l *learning) urls(configured []string) []string {
	var urls []string
	for _, u := range l.known {
		if u.Epoch == l.epoch && !slices.Contains(configured, u.URL) {
			urls = append(urls, u.URL)
		}
	}
	return append(urls, configured...)
}

// next is the first of the URLs that is not known in this epoch and may be tried, "" for
// none.
func (l *learning) next(told, configured []string, now time.Time) string {
	for _, url := range told {
		failed, before := l.tried[url]
		if !slices.Contains(l.urls(configured), url) && (!before || now.Sub(failed) >= tryURLAgain) {
			return url
		}
	}
	return ""
}

// learn proves one of the URLs that the controller told, and uses it from then on: it is
// the same controller if it has a certificate of the pinned CA, takes this node's, and
// answers with a document of the same epoch.
func (l *line) learn(ctx context.Context, told []string) error {
	maps.DeleteFunc(l.learned.tried, func(url string, _ time.Time) bool { return !slices.Contains(told, url) })
	url := l.learned.next(told, l.Config.ControllerURLs, time.Now())
	if url == "" {
		return nil
	}
	if err := l.proveURL(ctx, url); err != nil {
		if ctx.Err() == nil {
			l.learned.tried[url] = time.Now()
			l.Log.Warn("an address that the controller tells is not used", "url", url, "error", err, "retryIn", tryURLAgain)
		}
		return nil
	}
	known := append([]state.ControllerURL{{URL: url, Epoch: l.learned.epoch}},
		slices.DeleteFunc(slices.Clone(l.learned.known), func(u state.ControllerURL) bool { return u.URL == url })...)
	known = known[:min(len(known), api.MaxControllerURLs)]
	if err := l.State.SaveControllerURLs(known); err != nil {
		return fmt.Errorf("keeping a learned address of the controller: %w", err)
	}
	l.learned.known = known
	l.Log.Info("the controller has another address", "url", url)
	l.digest = "" // the first poll there is answered at once
	return l.use(l.credentials)
}

// proveURL polls through one URL alone.
func (l *line) proveURL(ctx context.Context, url string) error {
	o := l.linkOptions(l.credentials)
	o.URLs = []string{url}
	alone, err := link.New(o)
	if err != nil {
		return err
	}
	defer alone.Close()
	answer, err := pull.Poll(ctx, alone, pull.Request{Limit: tryURL})
	switch {
	case err != nil:
		return err
	case answer.Document == nil:
		return errors.New("it answers with no configuration that is understood")
	case answer.Document.Epoch != l.learned.epoch:
		return fmt.Errorf("it answers in epoch %d; the controller is in epoch %d", answer.Document.Epoch, l.learned.epoch)
	}
	return nil
}

// told sees to what an answer tells beside its document.
func (l *line) told(ctx context.Context, a pull.Answer) {
	var err error
	if a.Document != nil {
		err = l.enter(a.Document.Epoch)
	}
	if err == nil {
		err = l.learn(ctx, a.ControllerURLs)
	}
	if err != nil && ctx.Err() == nil {
		l.Log.Warn("the addresses of the controller stay what they were", "error", err)
	}
	l.board.Change(func(s *status.Status) {
		s.Controller.Wanted, s.Controller.Learned = a.Wanted, l.learned.urls(nil)
	})
}

// enter notes the epoch of a document. In another one, what was learned counts no more.
func (l *line) enter(epoch int64) error {
	if l.learned.epoch == epoch {
		return nil
	}
	before := l.learned.urls(l.Config.ControllerURLs)
	l.learned.epoch = epoch
	if slices.Equal(before, l.learned.urls(l.Config.ControllerURLs)) {
		return nil
	}
	return l.use(l.credentials)
}
