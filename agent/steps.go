package main

import (
	"log/slog"

	"github.com/nodehitch/nodehitch/agent/connection/files"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/clusteraccess"
	"github.com/nodehitch/nodehitch/agent/role/clusterdepartures"
	"github.com/nodehitch/nodehitch/agent/role/clustermember"
	"github.com/nodehitch/nodehitch/agent/role/clustermembers"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/agent/role/nfsclient"
	"github.com/nodehitch/nodehitch/agent/role/persistentvolume"
	"github.com/nodehitch/nodehitch/agent/role/registryclient"
	"github.com/nodehitch/nodehitch/agent/role/registryserver"
	"github.com/nodehitch/nodehitch/agent/role/storage"
)

// engine has every step that this agent knows, in the order in which they run: volumes before
// the registry whose data lies on one, the connections to registries before the cluster that
// pulls from them, what Kubernetes needs before the machine is joined, and a machine's membership
// before what it does in its cluster. A step finds out by itself whether what it needs is there, so
// another order would cost passes and break nothing. An empty kubeconfig is the default one.
func engine(machine *host.Host, log *slog.Logger, permits storage.Permits, store *files.Store, nodeID, stateDirectory, kubeconfig string) *converge.Engine {
	steps := storage.NewSteps(storage.Options{
		Host: machine, Permits: permits, NodeID: nodeID, StateDirectory: stateDirectory, Log: log,
	})
	joining := kubeadm.New(kubeadm.Options{Host: machine, Files: store, StateDirectory: stateDirectory, ServerID: nodeID, Log: log})
	cluster := kubernetes.Options{Host: machine, Kubeadm: joining, Files: store, Kubeconfig: kubeconfig}
	steps = append(steps,
		nfsclient.New(machine),
		registryserver.NewStep(registryserver.Options{Host: machine, Files: store, StateDirectory: stateDirectory, Log: log}),
		registryclient.New(registryclient.Options{Host: machine, Files: store, StateDirectory: stateDirectory, Log: log}),
	)
	departures := clusterdepartures.Options{Host: machine, Kubeconfig: kubeconfig}
	steps = append(steps, kubernetes.BeforeJoining(cluster)...)
	steps = append(steps, clustermember.New(clustermember.Options{Host: machine, Kubeadm: joining, ServerID: nodeID}))
	steps = append(steps, kubernetes.AfterJoining(cluster)...)
	steps = append(steps,
		persistentvolume.New(persistentvolume.Options{Host: machine, Kubeconfig: kubeconfig}),
		clustermembers.New(clustermembers.Options{Host: machine, Kubeadm: joining, Kubeconfig: kubeconfig}),
		clusterdepartures.New(departures),
		clusterdepartures.NewDrains(departures),
		clusteraccess.New(clusteraccess.Options{Host: machine, Kubeconfig: kubeconfig}),
	)
	e := converge.New(steps...)
	e.Log = log
	return e
}
