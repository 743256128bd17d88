package plan

import (
	"slices"

	"github.com/nodehitch/nodehitch/shared/api"
)

// leaves reports whether the server is to leave the cluster.
func (in Input) leaves(id string) bool { return slices.Contains(in.Leaving, id) }

// addDepartures has the owner let the servers that are about to go leave the cluster. It is
// asked also if none is: that takes back what is not done.
func (o *Output) addDepartures(in Input, owner *Node) {
	section := &api.ClusterDeparturesSection{
		Members: []api.ClusterServer{}, DeleteUnmanagedPods: in.Params.Cluster.Members.DeleteUnmanagedPods, Force: in.Force,
	}
	for _, n := range o.Nodes { // ordered by id
		if in.leaves(n.ID) {
			section.Members = append(section.Members, clusterServer(n))
		}
	}
	if owner.takes(in, api.SectionClusterDepartures, section) {
		owner.Config.ClusterDepartures = section
	}
}

// addDrains has the owner drain the Nodes of the members that are upgraded now. It is asked also if
// none is: that uncordons those that were.
func (o *Output) addDrains(in Input, owner *Node) {
	if in.Params.Cluster.Kubernetes == nil {
		return
	}
	section := &api.ClusterDrainsSection{Members: []api.ClusterServer{}, DeleteUnmanagedPods: in.Params.Cluster.Members.DeleteUnmanagedPods}
	for _, n := range o.Nodes { // ordered by id
		if slices.Contains(o.CarriedOver.Wave, n.ID) {
			section.Members = append(section.Members, clusterServer(n))
		}
	}
	if owner.takes(in, api.SectionClusterDrains, section) {
		owner.Config.ClusterDrains = section
	}
}
