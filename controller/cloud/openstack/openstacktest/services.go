package openstacktest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const stamp = "2026-11-22T06:14:23Z"

func (c *Cloud) listStacks(r *http.Request) reply {
	q := r.URL.Query()
	list := []object{}
	for _, s := range c.state.stacks {
		if q.Has("id") && !slices.Contains(q["id"], s.ID) || q.Has("name") && !slices.Contains(q["name"], s.Name) {
			continue
		}
		list = append(list, object{
			"id": s.ID, "stack_name": s.Name, "stack_status": s.Status, "stack_status_reason": s.Reason,
			"links":       []object{{"href": strings.Replace(c.stackURL(s.Name, s.ID), ProjectID, cmp.Or(s.Project, ProjectID), 1), "rel": "self"}},
			"description": "", "creation_time": stamp, "updated_time": nil, "deletion_time": nil, "stack_owner": User,
			"parent": nil, "stack_user_project_id": "e8105c15077c4b1b800b6afa28bc4abc", "tags": nil,
		})
	}
	return ok(object{"stacks": list})
}

func (c *Cloud) stackURL(name, id string) string {
	return c.URL + "/orchestration/v1/" + ProjectID + "/stacks/" + name + "/" + id
}

func (c *Cloud) listResources(r *http.Request) reply {
	s := c.state.stack(r.PathValue("id"))
	if s == nil || s.Name != r.PathValue("name") {
		return reply{http.StatusNotFound, object{"code": 404, "title": "Not Found", "explanation": "The resource could not be found.",
			"error": object{"type": "EntityNotFound", "traceback": nil, "message": fmt.Sprintf("The Stack (%s) could not be found.", r.PathValue("name"))}}}
	}
	depth, _ := strconv.Atoi(r.URL.Query().Get("nested_depth"))
	list := c.resources(s.Name, s.ID, "", s.Resources, depth)
	if id := r.URL.Query().Get("physical_resource_id"); id != "" {
		list = slices.DeleteFunc(list, func(o object) bool { return o["physical_resource_id"] != id })
	}
	return ok(object{"resources": list})
}

// resources is those of a stack, then those of what is nested in it, as Heat has them.
func (c *Cloud) resources(name, id, parent string, resources []Resource, depth int) []object {
	list := []object{}
	for _, r := range resources {
		links := []object{{"href": c.stackURL(name, id) + "/resources/" + r.Name, "rel": "self"}, {"href": c.stackURL(name, id), "rel": "stack"}}
		if r.Nested != nil {
			links = append(links, object{"href": c.stackURL(name+"-"+r.Name, r.PhysicalID), "rel": "nested"})
		}
		o := object{
			"resource_name": r.Name, "logical_resource_id": r.Name, "resource_type": r.Type, "physical_resource_id": r.PhysicalID,
			"resource_status": cmp.Or(r.Status, "CREATE_COMPLETE"), "resource_status_reason": "state changed",
			"creation_time": stamp, "updated_time": stamp, "links": links, "required_by": []string{},
		}
		if parent != "" {
			o["parent_resource"] = parent
		}
		list = append(list, o)
	}
	for _, r := range resources {
		if r.Nested != nil && depth > 0 {
			list = append(list, c.resources(name+"-"+r.Name, r.PhysicalID, r.Name, r.Nested, depth-1)...)
		}
	}
	return list
}

func (c *Cloud) listServers(r *http.Request) reply {
	list := []object{}
	for _, s := range c.state.servers {
		if !s.Unlisted && (s.Project == "" || s.Project == ProjectID) {
			list = append(list, c.serverObject(s))
		}
	}
	return c.page(r, "servers", list)
}

func (c *Cloud) showServer(r *http.Request) reply {
	s := c.state.server(r.PathValue("server_id"))
	switch {
	case s == nil:
		return noInstance(r)
	case s.Project != "" && s.Project != ProjectID:
		return reply{http.StatusForbidden, object{"forbidden": object{"code": 403, "message": "Policy doesn't allow os_compute_api:servers:show to be performed."}}}
	}
	return ok(object{"server": c.serverObject(*s)})
}

func noInstance(r *http.Request) reply {
	return notFound(fmt.Sprintf("Instance %s could not be found.", r.PathValue("server_id")))
}

func notFound(message string) reply {
	return reply{http.StatusNotFound, object{"itemNotFound": object{"code": 404, "message": message}}}
}

func (c *Cloud) setMetadata(r *http.Request) reply {
	s := c.state.server(r.PathValue("server_id"))
	if s == nil || s.Project != "" && s.Project != ProjectID {
		return noInstance(r)
	}
	var body struct{ Meta map[string]string }
	key := r.PathValue("key")
	if json.NewDecoder(r.Body).Decode(&body) != nil || len(body.Meta) != 1 || body.Meta[key] == "" {
		return reply{http.StatusBadRequest, object{"badRequest": object{"code": 400, "message": "Request body and URI mismatch"}}}
	}
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	s.Metadata[key] = body.Meta[key]
	return ok(object{"meta": body.Meta})
}

func (c *Cloud) deleteMetadata(r *http.Request) reply {
	s := c.state.server(r.PathValue("server_id"))
	if s == nil || s.Project != "" && s.Project != ProjectID {
		return noInstance(r)
	}
	if _, there := s.Metadata[r.PathValue("key")]; !there {
		return notFound("Metadata item was not found")
	}
	delete(s.Metadata, r.PathValue("key"))
	return reply{status: http.StatusNoContent}
}

func (c *Cloud) listPorts(r *http.Request) reply {
	list := []object{}
	for _, p := range c.state.ports {
		fixed := []object{}
		for _, a := range p.Addresses {
			fixed = append(fixed, object{"subnet_id": "5575b4f5-327e-4e89-98a9-ae4813e2134c", "ip_address": a})
		}
		list = append(list, object{"id": p.ID, "name": p.Name, "device_id": p.DeviceID, "fixed_ips": fixed})
	}
	return c.page(r, "ports", list)
}

func (c *Cloud) listFloatingIPs(r *http.Request) reply {
	list := []object{}
	for _, f := range c.state.floating {
		list = append(list, object{"id": f.ID, "floating_ip_address": f.Address, "port_id": orNull(f.PortID), "fixed_ip_address": orNull(f.Fixed)})
	}
	return c.page(r, "floatingips", list)
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// page is the page of a list that the request's marker asks for, with a link to the next.
// The link names another host, as one behind a proxy does.
func (c *Cloud) page(r *http.Request, name string, list []object) reply {
	q := r.URL.Query()
	if marker := q.Get("marker"); marker != "" {
		at := slices.IndexFunc(list, func(o object) bool { return o["id"] == marker })
		list = list[at+1:]
	}
	body := object{name: list}
	if len(list) > c.PageSize {
		body[name] = list[:c.PageSize]
		q.Set("marker", fmt.Sprint(list[c.PageSize-1]["id"]))
		body[name+"_links"] = []object{{"rel": "next", "href": "http://behind.invalid" + strings.TrimSuffix(r.URL.Path, "/") + "?" + q.Encode()}}
	}
	return ok(body)
}
