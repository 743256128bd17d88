package plan

import (
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// notBuilt says what of the parameters this version accepts and does nothing
// about. A parameter leaves this list when its section is made.
func notBuilt(p *params.Params) fault.List {
	c := p.Cluster
	if c == nil {
		return nil
	}
	var list fault.List
	at := fault.Root.Key("additionalParams").Key("k8s_cluster_installation_param")
	if len(c.PersistentVolumes) > 0 {
		list = append(list, at.Key("pv_registration_params").Fault(
			"PersistentVolumes are not registered yet; the manifests are checked and kept"))
	}
	return list
}
