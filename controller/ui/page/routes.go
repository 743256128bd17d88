package page

import (
	"net/url"
	"strconv"

	"github.com/nodehitch/nodehitch/shared/api"
)

// The paths of the page, in echo's grammar. All are for GET, but PathSignIn, which has a form for
// GET and takes its POST, and PathSignOut, which is for POST.
const (
	PathOverview   = "/ui/"
	PathInstances  = "/ui/instances"
	PathInstance   = "/ui/instances/:instance"
	PathNodes      = "/ui/nodes"
	PathNode       = "/ui/nodes/:node"
	PathOperations = "/ui/operations"
	PathOperation  = "/ui/operations/:instance/:sequence"
	PathVolumes    = "/ui/volumes"
	PathVolume     = "/ui/volumes/:volume"
	PathRegistries = "/ui/registries"
	PathHistory    = "/ui/history"
	PathEvents     = "/ui/events"
	PathAsset      = "/ui/assets/:file"
	PathSignIn     = "/ui/sign-in"
	PathSignOut    = "/ui/sign-out"
)

// The names of the server-sent events: which list has changed. Their data is not read.
const (
	ChangedInstances  = "instances"
	ChangedNodes      = "nodes"
	ChangedOperations = "operations"
	ChangedVolumes    = "volumes"
	ChangedAgents     = "agents"
	ChangedEvents     = "events"
	ChangedReplicas   = "replicas"
)

func instancePath(id string) string { return PathInstances + "/" + url.PathEscape(id) }

func nodePath(id string) string { return PathNodes + "/" + url.PathEscape(id) }

func volumePath(id string) string { return PathVolumes + "/" + url.PathEscape(id) }

func operationPath(o api.Operation) string {
	return PathOperations + "/" + url.PathEscape(o.VnfInstanceID) + "/" + strconv.FormatInt(o.Sequence, 10)
}
