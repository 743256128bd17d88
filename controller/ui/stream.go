package ui

import (
	"fmt"
	"net/http"
	"time"
)

// Times are those of a stream.
type Times struct {
	// CheckInterval is how often a stream looks for changes.
	CheckInterval time.Duration
	// MessageInterval is the least time between two messages about the same list.
	MessageInterval time.Duration
	// Heartbeat is after how long a comment is sent, so that what is between the browser and the
	// controller keeps the connection.
	Heartbeat time.Duration
}

var usualTimes = Times{CheckInterval: 100 * time.Millisecond, MessageInterval: time.Second, Heartbeat: 20 * time.Second}

// retry is after how many milliseconds the browser comes back to a controller that it has lost.
const retry = 1000

// stream tells the browser which lists have changed (server-sent events), until the session is over:
// at first of every list, because nobody knows which ones have changed since the page was made.
// Then it tells of every list, so that the page asks again, and learns that it has to sign in.
func (u *UI) stream(w http.ResponseWriter, r *http.Request, s Session) error {
	changes := u.watchLists()
	defer changes.stop()
	token := watch(u.Changes, s.Token.ID)
	defer func() { token.stop() }()
	if _, err := u.Authenticate(r); err != nil { // revoked before the watch began
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	u.follow(&sender{w: w, control: http.NewResponseController(w)}, r, s, changes, token)
	return nil
}

func (u *UI) follow(out *sender, r *http.Request, s Session, changes *watchedLists, token *watched) {
	end := time.NewTimer(s.Until.Sub(u.Now()))
	defer end.Stop()
	look, heartbeat := time.NewTicker(u.Times.CheckInterval), time.NewTicker(u.Times.Heartbeat)
	defer look.Stop()
	defer heartbeat.Stop()

	out.send(fmt.Sprintf("retry: %d\n\n", retry))
	out.changed(everyList) // since the page was made, or since the stream before broke off
	for out.err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-end.C:
			out.changed(everyList)
			return
		case <-token.changed:
			token.again()
			if _, err := u.Authenticate(r); err != nil {
				out.changed(everyList)
				return
			}
		case now := <-look.C:
			out.changed(changes.due(now, u.Times.MessageInterval))
		case <-heartbeat.C:
			out.send(":\n\n")
		}
	}
}

// sender writes a stream. Its first error is kept: the client has gone.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

func (s *sender) send(text string) {
	if s.err == nil {
		_, s.err = s.w.Write([]byte(text))
	}
	if s.err == nil {
		s.err = s.control.Flush()
	}
}

// changed sends one message for each list.
func (s *sender) changed(names []string) {
	text := ""
	for _, name := range names {
		text += "event: " + name + "\ndata: 1\n\n"
	}
	if text != "" {
		s.send(text)
	}
}
