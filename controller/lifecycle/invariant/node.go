package invariant

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// node: it is in its instance, and its document is the one that its digest names.
func (r *records) node(n store.Node) {
	wrong := func(ok bool, format string, args ...any) {
		r.want(ok, "node %s: %s", n.ID, fmt.Sprintf(format, args...))
	}
	i, ok := r.instances[n.InstanceID]
	wrong(ok, "its instance %s is missing", n.InstanceID)
	wrong(!ok || has(i.NodeIDs, n.ID), "its instance %s does not list it", n.InstanceID)
	wrong(n.Role.Valid(), "its role is %q", n.Role)
	var config api.NodeConfig
	if plain := r.unseals("the document of node "+n.ID, n.Config); plain != nil {
		wrong(json.Unmarshal(plain, &config) == nil, "its document cannot be read")
	}
	wrong(n.Generation > 0 && config.Generation == n.Generation && config.Digest() == n.Digest,
		"its document is generation %d and its record says %d", config.Generation, n.Generation)
	wrong(slices.Equal(n.Files, digestsOf(config)), "it may read the files %v and its document names %v", n.Files, config.Files())
	if r.blob != nil && (n.Expected || n.Identity.Live()) {
		for _, sha256 := range n.Files {
			_, err := r.blob(sha256)
			wrong(err == nil, "the file %s that its document names: %v", sha256, err)
		}
	}
	if id := n.Identity; id.Live() {
		wrong(id.Serial != "" && id.Serial != id.PreviousSerial && id.KeyHash != "" && !id.EnrolledAt.IsZero(), "its identity is not whole")
		wrong(!id.RevokedByHand, "it was revoked by hand and is let in")
	}
	r.volumesOf(n, config)
}

func digestsOf(config api.NodeConfig) (list []string) {
	for _, f := range config.Files() {
		list = append(list, f.Sha256)
	}
	return list
}

// volumesOf: what a document in force names is a volume that the node has. It may
// name another filesystem than the record: an operator's word on a volume comes to
// the document with the transaction after it, or at the next start.
func (r *records) volumesOf(n store.Node, config api.NodeConfig) {
	if config.Storage == nil || !n.Expected {
		return
	}
	may := r.instances[n.InstanceID].CarriedOver.VolumeServer
	r.want(n.Role != api.RoleStorage || may == "" || may == n.ID, "node %s: its document names volumes, and %s may still write to them", n.ID, may)
	for _, named := range config.Storage.Volumes {
		at := slices.IndexFunc(r.volumes, func(v store.Volume) bool { return v.ID == named.VolumeID })
		if at < 0 {
			r.want(false, "node %s: its volume %s has no record", n.ID, named.VolumeID)
			continue
		}
		v := r.volumes[at]
		r.want(v.NodeID == n.ID && v.InstanceID == n.InstanceID, "node %s: its volume %s is with node %q of instance %q", n.ID, v.ID, v.NodeID, v.InstanceID)
	}
}

// volume: it is with one node at most, no two have one filesystem, and its permit
// is in a state that the exchange can lead to.
func (r *records) volume(v store.Volume) {
	wrong := func(ok bool, format string, args ...any) {
		r.want(ok, "volume %s: %s", v.ID, fmt.Sprintf(format, args...))
	}
	_, err := uuid.Parse(v.FilesystemUUID)
	wrong(err == nil, "its filesystem is %q", v.FilesystemUUID)
	for _, other := range r.volumes {
		wrong(other.ID == v.ID || other.FilesystemUUID != v.FilesystemUUID, "its filesystem %s is that of %s", v.FilesystemUUID, other.ID)
	}
	i, ok := r.instances[v.InstanceID]
	wrong(v.InstanceID == "" || ok && has(i.VolumeIDs, v.ID), "its instance %s is missing or does not list it", v.InstanceID)
	if v.NodeID != "" {
		n, ok := r.nodes[v.NodeID]
		wrong(ok && n.InstanceID == v.InstanceID, "it is with node %s, which is not in its instance %q", v.NodeID, v.InstanceID)
	}
	for problem, found := range permitFaults(v) {
		wrong(!found, "%s (%+v)", problem, v.Permit)
	}
}

func permitFaults(v store.Volume) map[string]bool {
	p := v.Permit
	given := slices.Contains([]api.PermitState{api.PermitGranted, api.PermitStarted, api.PermitFormatted}, p.State)
	return map[string]bool{
		"its permit is in no state that there is":    !p.State.Valid(),
		"its permit is given to no node":             given && (p.ID == "" || p.NodeID == "" || p.Epoch == 0 || p.SizeBytes == 0),
		"its permit is in a state without one":       !given && p.State != api.PermitInterrupted && p.ID != "",
		"a spent permit overwrites":                  p.Overwrite && p.State != api.PermitGranted && p.State != api.PermitStarted,
		"a reformat is allowed beside a permit":      v.ReformatRequested && p.State != api.PermitNone && (!given || !p.Overwrite),
		"a reformat is allowed for no node":          v.ReformatRequested && p.NodeID == "",
		"a format that overwrites was not confirmed": p.Overwrite && !v.ReformatRequested,
	}
}
