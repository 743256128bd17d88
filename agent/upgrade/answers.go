package upgrade

import (
	"context"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/shared/client"
)

// answerLimit is how long a controller may take to answer the guard.
const answerLimit = 15 * time.Second

// Answers asks every URL of the controller at once, and reports whether any of them is
// answered by a server of the pinned root. It needs no identity: the new build may have
// damaged it.
func Answers(ctx context.Context, o link.Options) bool {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	answered := make(chan bool, len(o.URLs))
	for _, url := range o.URLs {
		alone := o
		alone.URLs = []string{url}
		go func() { answered <- answers(ctx, alone) }()
	}
	for range o.URLs {
		if <-answered {
			return true
		}
	}
	return false
}

func answers(ctx context.Context, o link.Options) bool {
	l, err := link.New(o)
	if err != nil {
		return false
	}
	defer l.Close()
	err = l.Do(ctx, func(ctx context.Context, c *client.Controller) error { return client.Done(c.GetHealthz(ctx)) })
	return err == nil || client.Status(err) != 0
}
