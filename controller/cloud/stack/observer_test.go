package stack

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/shared/api"
)

// hanging is a cloud that takes a request and never answers it.
type hanging struct{}

func (hanging) Resolve(ctx context.Context, _ Request) (*api.Topology, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hanging) Remains(ctx context.Context, _ Request, _, _ []string) (Remains, error) {
	<-ctx.Done()
	return Remains{}, ctx.Err()
}

func TestACloudThatHangs(t *testing.T) {
	s := &Observer{Source: hanging{}, Hub: &notify.Hub{}, Now: time.Now}
	o := &Observation{Request: Request{InstanceID: "one", StackID: "vnf-1"}}
	if err := s.Observe(t.Context(), o, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if o.Away == nil || o.Away.Type != api.ProblemCloudError || !strings.Contains(o.Away.Error(), "has not answered within 10ms") {
		t.Errorf("away: %v", o.Away)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Observe(gone, o, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("err %v for a caller that has gone, want no further calls", err)
	}
}
