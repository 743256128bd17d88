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
	// urlCheckLimit bounds the poll that checks a URL: the usual polls wait for it.
	urlCheckLimit = 10 * time.Second
	// urlRetryAfter is how long to wait before a URL that failed is checked again.
	urlRetryAfter = 10 * time.Minute
)

// learning is what the agent has learned about other URLs of the controller.
type learning struct {
	// epoch of the newest document. A URL that was checked in another epoch may lead to
	// a copy of the controller, or to the one before a restore.
	epoch int64
	known []state.ControllerURL
	// tried is when each URL failed that is still to be checked.
	tried map[string]time.Time
}

// recall loads what was learned before a restart.
func (d *Daemon) recall(epoch int64) learning {
	known, err := d.State.ControllerURLs()
	if err != nil {
		d.Log.Error("the learned addresses of the controller cannot be read; the controller sends them again", "error", err)
	}
	return learning{epoch: epoch, known: known, tried: map[string]time.Time{}}
}

// urls returns the learned URLs of this epoch, then those of agent.yaml, which are
// always kept.
func (l *learning) urls(configured []string) []string {
	var urls []string
	for _, u := range l.known {
		if u.Epoch == l.epoch && !slices.Contains(configured, u.URL) {
			urls = append(urls, u.URL)
		}
	}
	return append(urls, configured...)
}

// next is the URL to check now, "" for none: the first offered one that is not known in
// this epoch. While the one in use is not offered any more, it is the first other one.
func (l *learning) next(offered, configured []string, inUse string, now time.Time) string {
	candidates := slices.Clone(offered)
	if slices.Contains(offered, inUse) || slices.Contains(configured, inUse) {
		known := l.urls(configured)
		candidates = slices.DeleteFunc(candidates, func(url string) bool { return slices.Contains(known, url) })
	} else {
		candidates = append(candidates, configured...)
	}
	maps.DeleteFunc(l.tried, func(url string, _ time.Time) bool { return !slices.Contains(candidates, url) })
	for _, url := range candidates {
		if failed, before := l.tried[url]; !before || now.Sub(failed) >= urlRetryAfter {
			return url
		}
	}
	return ""
}

// learn checks one of the URLs that the controller offers, and uses it from then on. The
// URL is the same controller's if it has a certificate of the pinned CA, accepts this
// node's, and answers with a document of the same epoch.
//
// What is no longer offered is forgotten, the URL in use only once another one has
// answered: a wrong setting at the controller must lose no node.
func (c *connection) learn(ctx context.Context, offered []string) error {
	inUse := c.link.URL()
	known, keep := c.learned.known, append(slices.Clone(offered), inUse)
	if url := c.learned.next(offered, c.Config.ControllerURLs, inUse, time.Now()); url != "" {
		err := c.checkURL(ctx, url)
		switch {
		case err == nil:
			known, keep = append([]state.ControllerURL{{URL: url, Epoch: c.learned.epoch}}, known...), offered
		case ctx.Err() == nil:
			c.learned.tried[url] = time.Now()
			c.Log.Warn("an address of the controller does not work", "url", url, "error", err, "retryIn", urlRetryAfter)
		}
	}
	known = among(known, keep)
	if slices.Equal(known, c.learned.known) {
		return nil
	}
	if err := c.State.SaveControllerURLs(known); err != nil {
		return fmt.Errorf("saving the learned addresses of the controller: %w", err)
	}
	c.learned.known = known
	c.Log.Info("the controller's addresses have changed", "urls", c.learned.urls(c.Config.ControllerURLs))
	c.digest = "" // so that the first poll there is answered at once
	return c.use(c.credentials)
}

// among returns the first entry of each of these URLs, in their order.
func among(known []state.ControllerURL, urls []string) []state.ControllerURL {
	var found []state.ControllerURL
	for _, url := range urls {
		at := slices.IndexFunc(known, func(u state.ControllerURL) bool { return u.URL == url })
		if at >= 0 && !slices.Contains(found, known[at]) {
			found = append(found, known[at])
		}
	}
	return found[:min(len(found), api.MaxControllerURLs)]
}

// checkURL polls through this URL only.
func (c *connection) checkURL(ctx context.Context, url string) error {
	o := c.linkOptions(c.credentials)
	o.URLs = []string{url}
	alone, err := link.New(o)
	if err != nil {
		return err
	}
	defer alone.Close()
	answer, err := pull.Poll(ctx, alone, pull.Request{Limit: urlCheckLimit})
	switch {
	case err != nil:
		return err
	case answer.Document == nil:
		return errors.New("its answer has no configuration that the agent understands")
	case answer.Document.Epoch != c.learned.epoch:
		return fmt.Errorf("it answers in epoch %d; the controller is in epoch %d", answer.Document.Epoch, c.learned.epoch)
	}
	return nil
}

// useHeaders applies what an answer says besides its document.
func (c *connection) useHeaders(ctx context.Context, a pull.Answer) {
	var err error
	if a.Document != nil {
		err = c.enterEpoch(a.Document.Epoch)
	}
	if err == nil {
		err = c.learn(ctx, a.ControllerURLs)
	}
	if err != nil && ctx.Err() == nil {
		c.Log.Warn("the addresses of the controller could not be changed", "error", err)
	}
	c.board.Change(func(s *status.Status) { s.Controller.Wanted = a.Wanted })
}

// enterEpoch sets the epoch. URLs learned in another epoch are no longer used.
func (c *connection) enterEpoch(epoch int64) error {
	if c.learned.epoch == epoch {
		return nil
	}
	before := c.learned.urls(c.Config.ControllerURLs)
	c.learned.epoch = epoch
	if slices.Equal(before, c.learned.urls(c.Config.ControllerURLs)) {
		return nil
	}
	return c.use(c.credentials)
}
