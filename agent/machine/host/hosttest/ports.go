package hosttest

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

type ports struct{ *Machine }

func (h ports) Listeners(port int) ([]host.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := slices.Clone(h.Taken[port])
	if c := h.publishing(port); c != nil {
		found = append(found, host.Listener{PID: c.proxy(), Program: "docker-proxy"})
	}
	if h.Containers != nil && h.Containers.Taken == port {
		found = append(found, host.Listener{PID: takenBy, Program: "docker-proxy"})
	}
	return found, nil
}

func (m *Machine) publishing(port int) *ContainerState {
	if m.Containers == nil || !m.Containers.Running {
		return nil
	}
	for _, c := range m.Containers.Containers {
		if c.PID != 0 && slices.Contains(c.Ports, port) {
			return c
		}
	}
	return nil
}

// GetTLS answers with what Answers has.
func (h ports) GetTLS(_ context.Context, port int, _ string) (host.Answer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	answer := h.Answers[port]
	if answer.Status == 0 {
		return answer, errors.New("connection refused")
	}
	return answer, nil
}

// Get answers as the distribution registry does, or with what Answers has.
func (h ports) Get(_ context.Context, port int, _ string) (host.Answer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answer, ok := h.Answers[port]; ok {
		if answer.Status == 0 {
			return answer, errors.New("connection refused")
		}
		return answer, nil
	}
	if c := h.publishing(port); c == nil || c.Status != "running" {
		return host.Answer{}, errors.New("connection refused")
	}
	header := http.Header{"Docker-Distribution-Api-Version": {"registry/2.0"}, "Content-Type": {"application/json"}}
	return host.Answer{Status: http.StatusOK, Header: header, Body: "{}"}, nil
}
