package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	kjson "sigs.k8s.io/json"

	"github.com/nodehitch/nodehitch/controller/traffic/connlimit"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// MaxBodyBytes bounds every JSON request body. The largest legitimate one is
// a PUT of an instance, some tens of KiB.
const MaxBodyBytes = 1 << 20

// smaller bounds the bodies of unauthenticated callers, whose join token is checked
// after the body, and of nodes.
var smaller = map[string]int64{
	"enroll": 64 << 10, "renewCertificate": 64 << 10, "postFormat": 64 << 10, "putNodeStatus": 256 << 10,
}

// apart is how many documents are taken apart at a time: for a moment each takes
// many times the memory of its text.
var apart = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// checkBody compares the body with the operation's schema before it is decoded,
// and refuses it with every fault at once.
func (s *Handler) checkBody(op endpoint) check {
	switch {
	case op.upload:
		return checkUpload
	case op.body == nil:
		return func(echo.Context) error { return nil }
	}
	return func(c echo.Context) error {
		data, err := readJSON(c, op.id)
		if err != nil {
			return err
		}
		connlimit.Working(c.Request().Context())
		faults, err := s.faultsOf(c, op, data)
		if err != nil {
			return err
		}
		if len(faults) > 0 {
			return wire.NewInvalid(faults)
		}
		c.Request().Body = io.NopCloser(bytes.NewReader(data))
		return nil
	}
}

// faultsOf are the faults of a body by its schema. Those of the parameters of a PUT come with
// them; if the body fits the schema, they come from the PUT itself.
func (s *Handler) faultsOf(c echo.Context, op endpoint, data []byte) (fault.List, error) {
	apart <- struct{}{}
	defer func() { <-apart }()
	tree, wrong := jsontree.Parse(data)
	if wrong != nil {
		return fault.List{*wrong}, nil
	}
	faults := op.body.Check(tree)
	given := tree.Get("additionalParams")
	if len(faults) == 0 || op.id != "putInstance" && op.id != "planInstance" || given == nil || given.Kind != jsontree.Object {
		return faults, nil
	}
	_, more, err := s.Instances.ReadParameters(canonical(c.Param("vnfInstanceId")), data[given.Start:given.End])
	for _, f := range more {
		if !slices.Contains(faults, f) { // a name given twice is a fault of the whole body, too
			faults = append(faults, f)
		}
	}
	return faults, err
}

// readJSON is the whole body, of a type and size that can be JSON.
func readJSON(c echo.Context, operation string) ([]byte, error) {
	r := c.Request()
	limit, ok := smaller[operation]
	if !ok {
		limit = MaxBodyBytes
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || (media != "application/json" && !strings.HasSuffix(media, "+json")) {
		c.Response().Header().Set("Accept", "application/json")
		return nil, wire.NewProblem(wire.ProblemMediaType, "the body has the type "+
			fmt.Sprintf("%.80q", r.Header.Get("Content-Type"))+"; expected Content-Type: application/json")
	}
	if err := notEncoded(c); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, wire.NewProblem(wire.ProblemTooLarge, fmt.Sprintf("the body is larger than %d bytes", limit))
	case err != nil:
		return nil, wire.NewProblem(wire.ProblemInvalid, "the body broke off: "+err.Error())
	}
	return data, nil
}

// checkUpload refuses a body that would be stored as something else than the file. Its
// Content-Type does not matter else: `curl --data-binary` sends that of another form.
func checkUpload(c echo.Context) error {
	media, _, _ := mime.ParseMediaType(c.Request().Header.Get("Content-Type"))
	if strings.HasPrefix(media, "multipart/") {
		c.Response().Header().Set("Accept", "application/octet-stream")
		return wire.NewProblem(wire.ProblemMediaType, fmt.Sprintf("the body is a form (%.80s) with the file in it; "+
			"send the file itself as the body, as `curl --upload-file FILE` does", media))
	}
	return notEncoded(c)
}

// notEncoded refuses a Content-Encoding.
func notEncoded(c echo.Context) error {
	if c.Request().Header.Get("Content-Encoding") == "" {
		return nil
	}
	c.Response().Header().Set("Accept-Encoding", "identity")
	return wire.NewProblem(wire.ProblemMediaType, "the body is compressed; send it without Content-Encoding")
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
