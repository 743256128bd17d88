package httpapi

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v4"

	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/controller/ui"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// call is what is known about the request in hand. It travels in its context.
type call struct {
	id            string      // in the log and in the answer
	operation     string      // operationId, "" while there is no route
	authenticated bool        // authenticate has let it through
	who           string      // for the log and for records; never a secret
	token         *wire.Token // that the caller has shown, if it is one of the API
	request       *http.Request
	joinToken     string
	nodeID        string
	serial        string
	session       ui.Session // on the status page
	list          func()     // ends the caller's turn to have a list in memory; nil without one
}

type callKey struct{}

// callOf is the call that ctx belongs to. Every handler runs behind observe,
// which makes it.
func callOf(ctx context.Context) *call {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		panic("api: a handler ran outside of observe")
	}
	return c
}

// begin puts a new call into the request.
func begin(c echo.Context, id string) *call {
	info := &call{id: id, who: "anonymous"}
	ctx := event.Context(c.Request().Context(), func() string { return info.who })
	info.request = c.Request().WithContext(context.WithValue(ctx, callKey{}, info))
	c.SetRequest(info.request)
	return info
}

// named says which operation the route is.
func named(operation string) check {
	return func(c echo.Context) error {
		callOf(c.Request().Context()).operation = operation
		return nil
	}
}

// remote is the address of the peer, the zero Addr on a unix socket.
func (c *call) remote() netip.Addr {
	addr, err := netip.ParseAddrPort(c.request.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Addr().Unmap()
}
