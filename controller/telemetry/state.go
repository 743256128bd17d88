package telemetry

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodehitch/nodehitch/shared/api"
)

// State counts the records and connections of each state.
type State struct {
	Instances  map[api.InstanceState]int
	Nodes      map[api.NodeState]int
	Operations map[api.OperationState]int
	// Agents is the agents on the nodes, and their upgrade.
	Agents api.AgentRollout
	// Conditions counts the conditions of the nodes that a topology names, Unmet those that are not
	// True, but for Ready, and the sections that are withheld, by reason.
	Conditions map[Condition]int
	Unmet      map[api.Reason]int
	// LostVNFCs are those that are named.
	LostVNFCs []VNFC
	// Unconfirmed is the instances that no operator has confirmed since a restore.
	Unconfirmed int
	// Processing is since when the operations of each kind are in progress: the oldest of them.
	Processing map[OperationKind]time.Time
	// NotAfter is when each of the controller's own certificates ends, by its name.
	NotAfter map[string]time.Time
	// NodeNotAfter is when the first certificate ends of nodes that can renew it; zero for none.
	NodeNotAfter time.Time
	// BackupTakenAt is the moment of the last complete backup; zero for none.
	BackupTakenAt time.Time
	// StoreUsed and StoreFree are the bytes of the store's file with and without records.
	StoreUsed, StoreFree int64
	// Unauthenticated and Authenticated are connections.
	Unauthenticated, Authenticated int
	// Handshakes are in flight, MostHandshakes were at a time since the start.
	Handshakes, MostHandshakes int
}

// Condition is what conditions of nodes are counted by.
type Condition struct {
	Role   api.Role
	Type   string
	Status api.ConditionStatus
}

// VNFC is one by the ids that Tacker has for it, with the name of its instance.
type VNFC struct{ InstanceID, InstanceName, ID string }

// OperationKind is what operations are counted by.
type OperationKind struct {
	Operation string // api.OperationType.Kind
	Phase     api.OperationPhase
}

var (
	conditions  = prometheus.NewDesc("nodehitch_node_conditions", "Conditions of the nodes that a topology names, by the node's role, type and status: Ready and what the node's present document calls for.", []string{"role", "type", "status"}, nil)
	unmet       = prometheus.NewDesc("nodehitch_node_conditions_unmet", "Conditions of these nodes that are not True, without Ready, and sections that are withheld from them, by reason.", []string{"reason"}, nil)
	lostVNFC    = prometheus.NewDesc("nodehitch_lost_vnfc_info", "1 for each VNFC that only another server brings back; absent for all others, and without the setting metricsLostVnfcs.", []string{"vnf_instance_id", "vnf_instance_name", "vnfc_info_id"}, nil)
	unconfirmed = prometheus.NewDesc("nodehitch_instances_unconfirmed", "VNF instances that no operator has confirmed since a restore.", nil, nil)
	processing  = prometheus.NewDesc("nodehitch_operation_processing_seconds", "How long the oldest operation in progress has been so; 0 for none.", []string{"operation", "phase"}, nil)
	nodeCert    = prometheus.NewDesc("nodehitch_node_certificate_expiration_timestamp_seconds", "When the first certificate ends of nodes that are not Lost, in Unix time; absent without such nodes.", nil, nil)
	backupAge   = prometheus.NewDesc("nodehitch_backup_age_seconds", "How old the state in the last complete backup is; absent before the first.", nil, nil)
	storeBytes  = prometheus.NewDesc("nodehitch_store_bytes", "Bytes of the store's file: used by records, or free for more.", []string{"state"}, nil)
	instances   = prometheus.NewDesc("nodehitch_instances", "VNF instances by state.", []string{"state"}, nil)
	nodes       = prometheus.NewDesc("nodehitch_nodes", "Nodes by state.", []string{"state"}, nil)
	operation   = prometheus.NewDesc("nodehitch_operations", "LCM operation records by state.", []string{"state"}, nil)
	agents      = prometheus.NewDesc("nodehitch_agents", "Nodes by the version of their agent: the ten that most nodes have, and other.", []string{"version"}, nil)
	rollout     = prometheus.NewDesc("nodehitch_agent_rollout_state", "1 for the state that the upgrade of the agents is in, 0 for the others.", []string{"state"}, nil)
	upgrading   = prometheus.NewDesc("nodehitch_agent_rollout_nodes", "Nodes by how far the upgrade of their agent is.", []string{"state"}, nil)
	unavailable = prometheus.NewDesc("nodehitch_agent_rollout_max_unavailable_nodes", "How many nodes may be InFlight at a time.", nil, nil)
	notAfter    = prometheus.NewDesc("nodehitch_certificate_expiration_timestamp_seconds", "When the controller's own certificates end, in Unix time.", []string{"certificate"}, nil)
	connections = prometheus.NewDesc("nodehitch_connections", "Open connections to the HTTPS listener, by whether the caller has authenticated.", []string{"state"}, nil)
	handshakes  = prometheus.NewDesc("nodehitch_tls_handshakes_in_flight", "TLS handshakes in flight.", nil, nil)
	most        = prometheus.NewDesc("nodehitch_tls_handshakes_in_flight_max", "The most TLS handshakes that were in flight at a time since the start.", nil, nil)
)

// stateCollector counts only when a scrape asks for it.
type stateCollector struct {
	read func() (State, error)
	now  func() time.Time
	log  *slog.Logger
}

// CollectState calls read at each scrape. If read fails, the error is logged and the
// answer has no state metrics.
func (m *Metrics) CollectState(read func() (State, error), now func() time.Time, log *slog.Logger) {
	m.registry.MustRegister(stateCollector{read: read, now: now, log: log})
}

// Describe names the metrics.
func (c stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{conditions, unmet, lostVNFC, unconfirmed, processing, nodeCert, backupAge, storeBytes, instances, nodes, operation, agents, rollout, upgrading, unavailable, notAfter, connections, handshakes, most} {
		out <- d
	}
}

// Collect sends a 0 for a state without records, so that a graph does not lose its line.
func (c stateCollector) Collect(out chan<- prometheus.Metric) {
	now, err := c.read()
	if err != nil {
		c.log.Error("the state cannot be counted for the metrics", "error", err)
		return
	}
	send(out, instances, now.Instances, api.NotInstantiated, api.Instantiated)
	send(out, nodes, now.Nodes, api.NodeExpected, api.NodeEnrolled, api.NodeLost, api.NodeRevoked)
	send(out, operation, now.Operations, api.Processing, api.Completed, api.Failed)
	collectConditions(out, now)
	for _, vnfc := range now.LostVNFCs {
		out <- prometheus.MustNewConstMetric(lostVNFC, prometheus.GaugeValue, 1, vnfc.InstanceID, vnfc.InstanceName, vnfc.ID)
	}
	c.collectAges(out, now)
	c.collectAgents(out, now.Agents)
	for state, n := range map[string]int{"unauthenticated": now.Unauthenticated, "authenticated": now.Authenticated} {
		out <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(n), state)
	}
	out <- prometheus.MustNewConstMetric(handshakes, prometheus.GaugeValue, float64(now.Handshakes))
	out <- prometheus.MustNewConstMetric(most, prometheus.GaugeValue, float64(now.MostHandshakes))
	for name, t := range now.NotAfter {
		out <- prometheus.MustNewConstMetric(notAfter, prometheus.GaugeValue, float64(t.Unix()), name)
	}
}

// roles, statuses and phases are all values of these labels.
var (
	roles    = []api.Role{api.RoleMaster, api.RoleRegistry, api.RoleStorage, api.RoleWorker}
	statuses = []api.ConditionStatus{api.ConditionTrue, api.ConditionFalse, api.ConditionUnknown}
	phases   = []api.OperationPhase{api.PhaseStart, api.PhaseEnd}
)

// operationKinds are all kinds of operations.
func operationKinds() []string {
	kinds := []string{string(api.ScaleOut), string(api.ScaleIn)}
	for _, o := range []api.OperationType{api.Instantiate, api.Heal, api.Terminate, api.ModifyInfo, api.ChangeExtConn, api.ChangeVnfPkg} {
		kinds = append(kinds, string(o))
	}
	return kinds
}

// decisions are the reasons for which an operator has to decide something.
var decisions = []api.Reason{api.ReasonForeignData, api.ReasonFormatInterrupted, api.ReasonInUse}

// collectConditions sends Ready for each role. Of other conditions it sends those that a node of
// the role has, and of reasons those that there are: a node cannot make a series of its own.
func collectConditions(out chan<- prometheus.Metric, now State) {
	for _, role := range roles {
		for _, each := range append([]string{api.ConditionReady}, api.ConditionTypes()...) {
			counts, all := make(map[api.ConditionStatus]int), 0
			for _, status := range statuses {
				counts[status] = now.Conditions[Condition{role, each, status}]
				all += counts[status]
			}
			if all == 0 && each != api.ConditionReady {
				continue
			}
			for status, n := range counts {
				out <- prometheus.MustNewConstMetric(conditions, prometheus.GaugeValue, float64(n), string(role), each, string(status))
			}
		}
	}
	reasons := map[api.Reason]int{}
	for _, reason := range decisions {
		reasons[reason] = 0
	}
	for reason, n := range now.Unmet {
		if _, registered := api.Reasons[reason]; !registered {
			reason = "other"
		}
		reasons[reason] += n
	}
	for reason, n := range reasons {
		out <- prometheus.MustNewConstMetric(unmet, prometheus.GaugeValue, float64(n), reason)
	}
	out <- prometheus.MustNewConstMetric(unconfirmed, prometheus.GaugeValue, float64(now.Unconfirmed))
}

func (c stateCollector) collectAges(out chan<- prometheus.Metric, now State) {
	at := c.now()
	for _, kind := range operationKinds() {
		for _, phase := range phases {
			age := 0.0
			if began := now.Processing[OperationKind{kind, phase}]; !began.IsZero() {
				age = max(0, at.Sub(began).Seconds())
			}
			out <- prometheus.MustNewConstMetric(processing, prometheus.GaugeValue, age, kind, string(phase))
		}
	}
	if t := now.NodeNotAfter; !t.IsZero() {
		out <- prometheus.MustNewConstMetric(nodeCert, prometheus.GaugeValue, float64(t.Unix()))
	}
	if t := now.BackupTakenAt; !t.IsZero() {
		out <- prometheus.MustNewConstMetric(backupAge, prometheus.GaugeValue, at.Sub(t).Seconds())
	}
	for state, n := range map[string]int64{"used": now.StoreUsed, "free": now.StoreFree} {
		out <- prometheus.MustNewConstMetric(storeBytes, prometheus.GaugeValue, float64(n), state)
	}
}

func (c stateCollector) collectAgents(out chan<- prometheus.Metric, now api.AgentRollout) {
	versions, states := map[string]int{}, map[api.AgentState]int{}
	for _, n := range now.Nodes {
		versions[cmp.Or(n.Version, "unknown")] += n.Nodes
		states[n.State] += n.Nodes
	}
	for version, n := range bounded(versions) {
		out <- prometheus.MustNewConstMetric(agents, prometheus.GaugeValue, float64(n), version)
	}
	send(out, rollout, map[api.RolloutState]int{now.State: 1},
		api.RolloutIdle, api.RolloutProgressing, api.RolloutPaused, api.RolloutStopped, api.RolloutComplete)
	send(out, upgrading, states, api.AgentUpToDate, api.AgentWaiting, api.AgentInFlightState, api.AgentNotReady, api.AgentLost, api.AgentInOperation,
		api.AgentRolledBack, api.AgentNewer, api.AgentNotCarried, api.AgentManagedByPackage, api.AgentUpgradeDisabled, api.AgentNotSupported)
	out <- prometheus.MustNewConstMetric(unavailable, prometheus.GaugeValue, float64(now.MaxUnavailable))
}

// maxVersions bounds the values of a label that nodes choose.
const maxVersions = 10

// bounded are the versions that most nodes have, and the sum of the others.
func bounded(versions map[string]int) map[string]int {
	byNodes := slices.SortedFunc(maps.Keys(versions), func(a, b string) int {
		return cmp.Or(cmp.Compare(versions[b], versions[a]), cmp.Compare(a, b))
	})
	shown := map[string]int{"other": 0} // a graph does not lose its line
	for i, version := range byNodes {
		if i >= maxVersions {
			version = "other"
		}
		shown[version] += versions[byNodes[i]]
	}
	return shown
}

func send[S ~string](out chan<- prometheus.Metric, d *prometheus.Desc, counts map[S]int, states ...S) {
	for _, state := range states {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(counts[state]), string(state))
	}
}
