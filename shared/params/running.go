package params

import (
	"cmp"
	"fmt"

	"golang.org/x/mod/semver"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// AtVersion is the place of the version of Kubernetes in additionalParams.
func AtVersion(additionalParams fault.At) fault.At {
	return additionalParams.Key(keyCluster).Key(keyKubernetes).Key(keyVersion)
}

// CheckRunning is what parameters would change that stays as it is in a cluster that is there: what
// kubeadm does not change, and steps between versions that Kubernetes does not support. before are
// those in force; lowest and highest are the versions that the members have been told, empty if
// nobody knows. at is the place of additionalParams.
func CheckRunning(before, after *Params, lowest, highest string, at fault.At) (faults fault.List) {
	if before == nil || after == nil || before.Cluster == nil || after.Cluster == nil {
		return nil
	}
	b, a, at := before.Cluster, after.Cluster, at.Key(keyCluster)
	const again = "; for a new cluster, TERMINATE the instance and INSTANTIATE it again"
	switch {
	case a.Kubernetes == nil && b.Kubernetes == nil:
		return nil
	case b.Kubernetes == nil:
		return fault.List{at.Key(keyKubernetes).Fault("is new, and the cluster is there already, made by another program; leave it out" + again)}
	case a.Kubernetes == nil:
		return fault.List{at.Fault(fmt.Sprintf("lacks %s, with which nodehitch has made the cluster; give it as before%s", keyKubernetes, again))}
	}
	keep := func(at fault.At, before, after any) {
		if before != after {
			faults = append(faults, at.Fault(fmt.Sprintf("is %v, and the cluster was made with %v, which stays as it is; give that%s", shown(after), shown(before), again)))
		}
	}
	master := at.Key(keyMaster)
	keep(master.Key(keyPodCIDR), b.Master.PodCIDR, a.Master.PodCIDR)
	keep(master.Key(keyClusterCIDR), b.Master.ClusterCIDR, a.Master.ClusterCIDR)
	keep(master.Key(keyClusterCP), b.Master.ClusterCPName, a.Master.ClusterCPName)
	keep(at.Key(keyMembers).Key(keyEndpointPort), b.Members.EndpointPort, a.Members.EndpointPort)
	keep(at.Key(keyKubernetes).Key(keyImageRepository), b.Kubernetes.ImageRepository, a.Kubernetes.ImageRepository)
	return append(faults, checkStep(a.Kubernetes.Version, cmp.Or(lowest, b.Kubernetes.Version), cmp.Or(highest, b.Kubernetes.Version), at.Key(keyKubernetes).Key(keyVersion))...)
}

// shown is a value for people.
func shown(value any) any {
	if value == "" {
		return "absent"
	}
	return value
}

// checkStep refuses a version below the highest that a member has been told, and one that is more
// than one minor version above the lowest.
func checkStep(to, lowest, highest string, at fault.At) fault.List {
	switch {
	case semver.Compare("v"+to, "v"+highest) < 0:
		return fault.List{at.Fault(fmt.Sprintf("is %q, and members are at %s or on the way to it; Kubernetes has no way back to a lower version, give %s or a later one", to, highest, highest))}
	case minor(to) > minor(lowest)+1:
		return fault.List{at.Fault(fmt.Sprintf("is %q, and members are at %s; Kubernetes is upgraded by one minor version at a time, give a version of 1.%d first", to, lowest, minor(lowest)+1))}
	}
	return nil
}

// minor is the y of a version 1.y.z.
func minor(version string) (y int) {
	_, _ = fmt.Sscanf(version, "1.%d.", &y) // every version has that form: see grammar.KubernetesVersion
	return y
}
