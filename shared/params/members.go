package params

import (
	"fmt"

	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// defaultEndpointPort is the port that Kubernetes' API server has by default.
const defaultEndpointPort = 6443

func (o *object) clusterMembers() *ClusterMembers {
	if o == nil {
		return nil
	}
	const access = "cluster_access"
	m := &ClusterMembers{
		EndpointPort:        o.port(keyEndpointPort, defaultEndpointPort),
		DeleteUnmanagedPods: o.boolean("delete_unmanaged_pods"),
		Access:              text(o, access, optional, clusterAccess),
	}
	switch m.Access {
	case "":
		m.Access = AccessTacker
	case AccessAdmin:
		o.r.warn(o.key(access), "%q lets each holder of the VIM's token do everything in the cluster; Tacker's Kubernetes driver needs no more than %q, which reads every Secret and starts any Pod and so is to be kept as well as an administrator's", AccessAdmin, AccessTacker)
	}
	o.close()
	return m
}

func clusterAccess(s string) (ClusterAccess, error) {
	switch access := ClusterAccess(s); access {
	case AccessTacker, AccessAdmin:
		return access, nil
	}
	return "", fmt.Errorf("%s is no access of a VIM; expected %q or %q", grammar.Show(s), AccessTacker, AccessAdmin)
}

// boolean reads true or false; false where it is absent or refused.
func (o *object) boolean(name string) bool {
	n, _ := o.attribute(name, optional, jsontree.Bool)
	return n != nil && n.Text == "true"
}
