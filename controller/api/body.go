package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	kjson "sigs.k8s.io/json"

	"github.com/nodehitch/nodehitch/controller/gate"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// MaxBodyBytes bounds every JSON request body. The largest that anybody sends is
// a PUT of an instance, some tens of KiB.
const MaxBodyBytes = 1 << 20

// checkBody compares the body with the operation's schema before it is decoded,
// and refuses it with every fault at once.
func checkBody(op operation) check {
	if op.body == nil {
		return func(echo.Context) error { return nil }
	}
	return func(c echo.Context) error {
		data, err := readJSON(c)
		if err != nil {
			return err
		}
		gate.Working(c.Request().Context())
		tree, wrong := jsontree.Parse(data)
		if wrong != nil {
			return wire.NewInvalid(fault.List{*wrong})
		}
		if faults := op.body.Check(tree); len(faults) > 0 {
			return wire.NewInvalid(faults)
		}
		c.Request().Body = io.NopCloser(bytes.NewReader(data))
		return nil
	}
}

// readJSON is the whole body, of a type and size that can be JSON.
func readJSON(c echo.Context) ([]byte, error) {
	r := c.Request()
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || (media != "application/json" && !strings.HasSuffix(media, "+json")) {
		return nil, echo.NewHTTPError(http.StatusUnsupportedMediaType, "the body has the type "+
			fmt.Sprintf("%.80q", r.Header.Get("Content-Type"))+"; expected Content-Type: application/json")
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" {
		return nil, echo.NewHTTPError(http.StatusUnsupportedMediaType, "the body is compressed; send it without Content-Encoding")
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, MaxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, wire.NewProblem(wire.ProblemTooLarge, fmt.Sprintf("the body is larger than %d bytes", MaxBodyBytes))
	case err != nil:
		return nil, wire.NewProblem(wire.ProblemInvalid, "the body broke off: "+err.Error())
	}
	return data, nil
}

// bodyBinder decodes a body that checkBody has let through.
type bodyBinder struct{}

// Bind decodes the request's JSON into v. Names are case sensitive, as the schema
// has them; what the schema did not notice is a fault all the same.
func (bodyBinder) Bind(v any, c echo.Context) error {
	data, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return fmt.Errorf("reading the checked body: %w", err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, v); err != nil {
		return wire.NewInvalid(fault.List{fault.Root.Fault(err.Error())})
	}
	return nil
}
