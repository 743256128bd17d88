package openstack

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// depth is how deep nested stacks are listed. Heat's own limit is 5 by default.
const depth = 5

// Stack is the stack of this id or name; IsNotFound if there is none in the project,
// or none any more. One call.
//
// It asks for a list, for Heat answers the question for a single stack with a redirect
// and the values of all outputs, which it has to compute. To an administrator the list
// shows the stacks of all projects; only links tell whose they are.
func (c *Cloud) Stack(ctx context.Context, idOrName string) (Stack, error) {
	query := url.Values{"name": {idOrName}}
	if uuid.Validate(idOrName) == nil {
		query = url.Values{"id": {idOrName}}
	}
	r := request{service: orchestration, method: http.MethodGet, path: "/stacks", query: query}
	found, err := list[struct {
		ID     string `json:"id"`
		Name   string `json:"stack_name"`
		Status string `json:"stack_status"`
		Reason string `json:"stack_status_reason"`
		Links  []link `json:"links"`
	}](ctx, c, r, "stacks")
	if err != nil {
		return Stack{}, err
	}
	for _, s := range found {
		if (s.ID == idOrName || s.Name == idOrName) && c.ownLink(s.Links) {
			return Stack{ID: s.ID, Name: s.Name, Status: s.Status, StatusReason: s.Reason}, nil
		}
	}
	at := c.calledAs(r)
	return Stack{}, &Error{Cloud: c.name, Service: at.service, Call: at.call, Status: http.StatusNotFound, Message: "the project has no such stack"}
}

// ownLink reports whether a stack's own link leads into the credential's project.
func (c *Cloud) ownLink(links []link) bool {
	for _, l := range links {
		if u, err := url.Parse(l.Href); l.Rel == "self" && err == nil {
			return strings.Contains(u.Path, "/"+c.projectID+"/stacks/")
		}
	}
	return false
}

// Resources are those of the stack and of the stacks nested in it, five deep, without
// those that are deleted. One call.
func (c *Cloud) Resources(ctx context.Context, s Stack) ([]Resource, error) {
	return c.resources(ctx, s, url.Values{})
}

// Owns reports whether the stack, or one nested in it, five deep, has a resource with
// this physical id. One call.
func (c *Cloud) Owns(ctx context.Context, s Stack, physicalID string) (bool, error) {
	found, err := c.resources(ctx, s, url.Values{"physical_resource_id": {physicalID}})
	for _, r := range found {
		if r.PhysicalID == physicalID {
			return true, nil
		}
	}
	return false, err
}

func (c *Cloud) resources(ctx context.Context, s Stack, query url.Values) ([]Resource, error) {
	query.Set("nested_depth", strconv.Itoa(depth))
	found, err := list[struct {
		Name       string `json:"resource_name"`
		Type       string `json:"resource_type"`
		PhysicalID string `json:"physical_resource_id"`
		Status     string `json:"resource_status"`
		Links      []link `json:"links"`
	}](ctx, c, request{service: orchestration, path: "/stacks/{name}/{id}/resources", values: []string{s.Name, s.ID}, query: query}, "resources")
	if err != nil {
		return nil, err
	}
	var out []Resource
	for _, r := range found {
		if r.Status != "DELETE_COMPLETE" {
			out = append(out, Resource{Name: r.Name, Type: r.Type, PhysicalID: r.PhysicalID, Status: r.Status, StackID: stackOf(r.Links)})
		}
	}
	return out, nil
}

// stackOf is the id at the end of the link to a resource's stack.
func stackOf(links []link) string {
	for _, l := range links {
		if u, err := url.Parse(l.Href); l.Rel == "stack" && err == nil {
			return path.Base(u.Path)
		}
	}
	return ""
}
