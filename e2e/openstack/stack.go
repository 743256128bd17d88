package openstack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Template is what a stack is made from.
type Template struct {
	// Name of the stack.
	Name string
	// Text of the template, YAML.
	Text string
	// Files are nested templates by the names that Text refers to them by.
	Files map[string]string
	// Parameters of the stack.
	Parameters map[string]any
	// Environment may hold resource_registry, parameter_defaults and so on.
	Environment map[string]any
	// TimeoutMinutes bounds each operation; 0 means 10.
	TimeoutMinutes int
}

// Stack is what Heat says of one.
type Stack struct {
	ID     string `json:"id"`
	Name   string `json:"stack_name"`
	Status string `json:"stack_status"`
	Reason string `json:"stack_status_reason"`

	// Parameters are strings, also those of another type. Hidden ones are asterisks.
	Parameters map[string]string `json:"parameters"`

	Outputs []struct {
		Key   string `json:"output_key"`
		Value any    `json:"output_value"`
	} `json:"outputs"`
}

// Resource is what Heat says of a resource of a stack or of one nested in it.
type Resource struct {
	Name       string `json:"resource_name"`
	Type       string `json:"resource_type"`
	PhysicalID string `json:"physical_resource_id"`
	Status     string `json:"resource_status"`
	Reason     string `json:"resource_status_reason"`
	// Parent is the name of the resource whose nested stack it is in; empty at the top.
	Parent string `json:"parent_resource"`
	// Created is when, in RFC 3339: as text it sorts by time.
	Created string `json:"creation_time"`
}

func (t Template) request() map[string]any {
	minutes := t.TimeoutMinutes
	if minutes == 0 {
		minutes = 10
	}
	body := map[string]any{"timeout_mins": minutes}
	if t.Name != "" {
		body["stack_name"] = t.Name
	}
	if t.Text != "" {
		body["template"] = t.Text
	}
	if t.Files != nil {
		body["files"] = t.Files
	}
	if t.Parameters != nil {
		body["parameters"] = t.Parameters
	}
	if t.Environment != nil {
		body["environment"] = t.Environment
	}
	return body
}

// CreateStack makes Heat begin, and returns the id. See WaitStack.
func (a *Account) CreateStack(ctx context.Context, t Template) (id string, err error) {
	var made struct{ Stack struct{ ID string } }
	err = a.Call(ctx, http.MethodPost, HeatURL+"/stacks", t.request(), &made)
	return made.Stack.ID, err
}

// UpdateStack makes Heat begin an update to this template.
func (a *Account) UpdateStack(ctx context.Context, id string, t Template) error {
	return a.Call(ctx, http.MethodPut, HeatURL+"/stacks/"+t.Name+"/"+id, t.request(), nil)
}

// PatchStack makes Heat begin an update that changes what t has and keeps everything else.
func (a *Account) PatchStack(ctx context.Context, id string, t Template) error {
	s, err := a.Stack(ctx, id)
	if err != nil {
		return err
	}
	return a.Call(ctx, http.MethodPatch, s.url(), t.request(), nil)
}

// SoftwareConfig makes Heat keep a text, which a server's user_data may name by its id.
func (a *Account) SoftwareConfig(ctx context.Context, text string) (id string, err error) {
	var made struct {
		Config struct{ ID string } `json:"software_config"`
	}
	err = a.Call(ctx, http.MethodPost, HeatURL+"/software_configs", map[string]any{"name": "text", "group": "Heat::Ungrouped", "config": text}, &made)
	return made.Config.ID, err
}

// StackTemplate is what Heat has of a stack's template and of those nested in it.
func (a *Account) StackTemplate(ctx context.Context, id string) (t Template, err error) {
	s, err := a.Stack(ctx, id)
	if err != nil {
		return t, err
	}
	var text json.RawMessage
	err = errors.Join(a.Call(ctx, http.MethodGet, s.url()+"/template", nil, &text), a.Call(ctx, http.MethodGet, s.url()+"/files", nil, &t.Files))
	t.Name, t.Text = s.Name, string(text)
	return t, err
}

// DeleteStack deletes a stack and waits until it is gone, and its name is free.
func (a *Account) DeleteStack(ctx context.Context, id string) error {
	s, err := a.Stack(ctx, id)
	if err != nil {
		return err
	}
	if err := a.Call(ctx, http.MethodDelete, s.url(), nil, nil); err != nil {
		return err
	}
	if _, err := a.WaitStack(ctx, id); err != nil && !isNotFound(err) {
		return err
	}
	return a.gone(ctx, s.Name)
}

// gone waits until there is no stack of the name: Heat has that of one that is deleted
// for a moment more.
func (a *Account) gone(ctx context.Context, name string) error {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := a.Stack(ctx, name)
		switch {
		case isNotFound(err):
			return nil
		case err != nil:
			return err
		case s.Status != "DELETE_COMPLETE":
			return fmt.Errorf("deleting stack %s: it is %s: %s", name, s.Status, s.Reason)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("deleting stack %s: %w", name, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func isNotFound(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Status == http.StatusNotFound
}

func (s Stack) url() string { return HeatURL + "/stacks/" + s.Name + "/" + s.ID }

// Stack asks for a stack by its id or name.
func (a *Account) Stack(ctx context.Context, idOrName string) (Stack, error) {
	var answer struct{ Stack Stack }
	err := a.Call(ctx, http.MethodGet, HeatURL+"/stacks/"+idOrName, nil, &answer)
	return answer.Stack, err
}

// WaitStack waits until Heat has finished with a stack. If the stack failed, the error has
// Heat's reason.
func (a *Account) WaitStack(ctx context.Context, id string) (Stack, error) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := a.Stack(ctx, id)
		switch {
		case err != nil:
			return s, err
		case strings.HasSuffix(s.Status, "_FAILED"):
			return s, fmt.Errorf("stack %s: %s: %s", s.Name, s.Status, s.Reason)
		case !strings.HasSuffix(s.Status, "_IN_PROGRESS"):
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("stack %s: %s: %w", s.Name, s.Status, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Resources are those of a stack and of the stacks nested in it.
func (a *Account) Resources(ctx context.Context, id string) ([]Resource, error) {
	s, err := a.Stack(ctx, id)
	if err != nil {
		return nil, err
	}
	var answer struct{ Resources []Resource }
	err = a.Call(ctx, http.MethodGet, s.url()+"/resources?nested_depth=5", nil, &answer)
	return answer.Resources, err
}

// MarkUnhealthy makes the next update replace a resource of the stack itself, which may be a
// nested one.
func (a *Account) MarkUnhealthy(ctx context.Context, id, resource string) error {
	s, err := a.Stack(ctx, id)
	if err != nil {
		return err
	}
	return a.Call(ctx, http.MethodPatch, s.url()+"/resources/"+resource,
		map[string]any{"mark_unhealthy": true, "resource_status_reason": "to be healed"}, nil)
}

// WriteFile writes a file into the cloud's own root, for OpenStack.
func (c *Cloud) WriteFile(ctx context.Context, path string, content []byte) error {
	cmd := c.root.command(ctx, "install", "-D", "-m", "0600", "/dev/stdin", path)
	cmd.Stdin = bytes.NewReader(content)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("writing %s: %w: %s", path, err, out)
	}
	return nil
}

// OpenStack runs the command line client as the admin, in the cloud's own root file system,
// and returns what it printed.
func (c *Cloud) OpenStack(ctx context.Context, args ...string) ([]byte, error) {
	return c.root.run(ctx, append([]string{"openstack"}, args...)...)
}
