package pagetest

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/controller/ui/page"
	"github.com/nodehitch/nodehitch/shared/api"
)

// View is what a world shows at a path and query, nil for nothing.
func (w World) View(u *url.URL) page.View {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(u.Path, page.PathOverview), "/"), "/")
	section, of := parts[0], parts[1:]
	switch {
	case u.Path == page.PathOverview:
		return page.Overview{Instances: w.Instances, Nodes: w.Nodes, Operations: w.Operations, Volumes: w.Volumes, Rollout: w.Rollout, Replicas: w.Replicas, Events: w.latest(nil)}
	case u.Path == page.PathSignIn:
		return page.SignIn{Next: u.Query().Get("next"), Problem: u.Query().Get("problem")}
	case len(of) == 0:
		return w.list(section, u.Query())
	}
	return w.object(section, of)
}

func (w World) list(section string, query url.Values) page.View {
	switch section {
	case "instances":
		return page.Instances{Instances: w.Instances, Nodes: w.Nodes, Operations: w.Operations}
	case "nodes":
		return page.Nodes{Nodes: w.Nodes}
	case "operations":
		return page.Operations{Operations: w.Operations}
	case "volumes":
		return page.Volumes{Volumes: w.Volumes, Nodes: w.Nodes}
	case "registries":
		return page.Registries{Instances: w.Instances, Nodes: w.Nodes}
	case "history":
		return page.History{Events: w.latest(page.HistoryFits(query, w.Nodes, w.Volumes))}
	}
	return nil
}

func (w World) object(section string, of []string) page.View {
	instance := func(o string) []api.Operation {
		return slices.DeleteFunc(slices.Clone(w.Operations), func(x api.Operation) bool { return x.VnfInstanceID != o })
	}
	switch section {
	case "instances":
		for _, i := range w.Instances {
			if i.ID == of[0] {
				return page.Instance{Instance: i, Operations: instance(i.ID), Events: w.latest(func(e api.Event) bool { return e.VnfInstanceID == i.ID }),
					Nodes:   w.nodesOf(i.ID),
					Volumes: slices.DeleteFunc(slices.Clone(w.Volumes), func(v api.Volume) bool { return v.VnfInstanceID != i.ID })}
			}
		}
	case "nodes":
		for _, n := range w.Nodes {
			if n.ID == of[0] {
				return page.Node{Node: n, Operations: instance(n.VnfInstanceID), Events: w.latest(func(e api.Event) bool { return e.NodeID == n.ID }),
					Volumes: slices.DeleteFunc(slices.Clone(w.Volumes), func(v api.Volume) bool { return v.NodeID != n.ID })}
			}
		}
	case "operations":
		for _, o := range w.Operations {
			if len(of) == 2 && o.VnfInstanceID == of[0] && strconv.FormatInt(o.Sequence, 10) == of[1] {
				return page.Operation{Operation: o, Operations: instance(o.VnfInstanceID), Nodes: w.nodesOf(o.VnfInstanceID), Events: w.latest(func(e api.Event) bool { return e.VnfInstanceID == o.VnfInstanceID })}
			}
		}
	case "volumes":
		for _, v := range w.Volumes {
			if v.ID == of[0] {
				view := page.Volume{Volume: v, Events: w.latest(func(e api.Event) bool { return e.VolumeID == v.ID })}
				for i := range w.Nodes {
					if w.Nodes[i].ID == v.NodeID {
						view.Node = &w.Nodes[i]
					}
				}
				return view
			}
		}
	}
	return nil
}

func (w World) nodesOf(instance string) []api.Node {
	return slices.DeleteFunc(slices.Clone(w.Nodes), func(n api.Node) bool { return n.VnfInstanceID != instance })
}

// latest are the events that fit, in their order.
func (w World) latest(fits func(api.Event) bool) []api.Event {
	if fits == nil {
		return w.Events
	}
	return slices.DeleteFunc(slices.Clone(w.Events), func(e api.Event) bool { return !fits(e) })
}

// Paths are those of every page that a world has, at most few of each kind of object.
func (w World) Paths(few int) []string {
	paths := []string{page.PathOverview, page.PathInstances, page.PathNodes, page.PathOperations, page.PathVolumes, page.PathRegistries, page.PathHistory, page.PathSignIn, page.PathOverview + "nothing/here"}
	add := func(n int, path string) {
		if n < few {
			paths = append(paths, path)
		}
	}
	for n, i := range w.Instances {
		add(n, page.PathInstances+"/"+url.PathEscape(i.ID))
	}
	for n, of := range w.Nodes {
		add(n, page.PathNodes+"/"+url.PathEscape(of.ID))
	}
	for n, o := range w.Operations {
		add(n, page.PathOperations+"/"+url.PathEscape(o.VnfInstanceID)+"/"+strconv.FormatInt(o.Sequence, 10))
	}
	for n, v := range w.Volumes {
		add(n, page.PathVolumes+"/"+url.PathEscape(v.ID))
	}
	return paths
}

// Frame is that of a request for a path of a sample.
func Frame(u *url.URL) page.Frame {
	return page.Frame{Now: Now, URL: u, Token: "alice", Version: "v1.0.0"}
}

// ServeHTTP shows the pages of the world.
func (w World) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	if file, ok := strings.CutPrefix(request.URL.Path, strings.TrimSuffix(page.PathAsset, ":file")); ok {
		content, mediaType, _ := page.Asset(file)
		response.Header().Set("Content-Type", mediaType)
		_, _ = response.Write(content)
		return
	}
	frame, view := Frame(request.URL), w.View(request.URL)
	frame.Fragment = request.Header.Get("HX-Request") == "true"
	response.Header().Set("Content-Type", "text/html; charset=utf-8")
	response.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	if view == nil {
		response.WriteHeader(http.StatusNotFound)
		view = page.Problem{Problem: *api.NewProblem(api.ProblemNotFound, "there is no page "+request.URL.Path)}
	}
	_ = page.Write(response, frame, view)
}
