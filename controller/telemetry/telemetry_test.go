package telemetry_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/nodehitch/nodehitch/controller/telemetry"
	"github.com/nodehitch/nodehitch/shared/api"
)

func now() time.Time { return time.Unix(1_800_000_000, 0) }

func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatHappenedIsThereToScrape(t *testing.T) {
	m := telemetry.New("v1.2.3")
	m.Answered("getNode", 404, 5*time.Millisecond)
	m.PollHeld(+1)
	m.PollHeld(+1)
	m.PollHeld(-1)
	m.Enrollment("bad_token")
	m.Renewal()
	m.Revocation()
	m.Revocation()
	m.DiscoveryFailure()
	m.EnrollmentWithoutNonce()
	m.Cloud("compute", "GET /servers/detail", 503)
	m.Transaction(true, time.Millisecond, false)
	m.Transaction(true, time.Millisecond, true)
	m.OperationEnded("HEAL", "END", "failed")
	m.OperationTook("HEAL", "END", "failed", 4*time.Second)
	m.NodeReady("worker", 9*time.Second)
	m.BeginEnrollments("attest_cloud")
	m.TLSHandshake("failure")
	m.ConnectionRejected("limit")
	m.ConnectionClosed("idle")
	m.CollectState(func() (telemetry.State, error) {
		return telemetry.State{
			Nodes: map[api.NodeState]int{api.NodeLost: 2},
			Agents: api.AgentRollout{State: api.RolloutStopped, MaxUnavailable: 7, Nodes: []api.AgentCount{
				{Version: "v1", State: api.AgentInFlightState, Nodes: 3}, {Version: "v1", State: api.AgentLost, Nodes: 8}, {State: api.AgentNotReady, Nodes: 9}}},
			NotAfter: map[string]time.Time{"root": time.Unix(1000, 0)}, NodeNotAfter: time.Unix(2000, 0),
			BackupTakenAt: now().Add(-90 * time.Second), StoreUsed: 11, StoreFree: 12, Unconfirmed: 13,
			Conditions: map[telemetry.Condition]int{{api.RoleStorage, api.ConditionVolumesMounted, api.ConditionFalse}: 14,
				{"a role", "a type", "a status"}: 15},
			LostVNFCs:  []telemetry.VNFC{{InstanceID: "an instance", InstanceName: "web", ID: "a VNFC"}},
			Unmet:      map[api.Reason]int{api.ReasonForeignData: 16, "Mine": 17, "Ours": 1},
			Processing: map[telemetry.OperationKind]time.Time{{"SCALE_IN", api.PhaseStart}: now().Add(-19 * time.Second)},
			// Each its own number, so that none stands for another.
			Unauthenticated: 3, Authenticated: 4, Handshakes: 5, MostHandshakes: 6,
		}, nil
	}, now, slog.New(slog.DiscardHandler))

	text := scrape(t, m)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	for _, one := range []string{"a role", "a type", "Mine"} {
		if strings.Contains(text, one) {
			t.Errorf("a node makes a series with %q", one)
		}
	}
	for _, want := range []string{
		`nodehitch_http_requests_total{code="404",operation="getNode"} 1`,
		`nodehitch_http_request_duration_seconds_bucket{operation="getNode",le="0.01"} 1`,
		`nodehitch_long_polls_in_flight 1`,
		`nodehitch_enrollments_total{result="bad_token"} 1`,
		"nodehitch_enrollments_without_nonce_total 1\n",
		"nodehitch_discovery_failures_total 1\n",
		"nodehitch_certificate_renewals_total 1\n",
		"nodehitch_identity_revocations_total 2\n",
		`nodehitch_cloud_requests_total{call="GET /servers/detail",code="503",service="compute"} 1`,
		`nodehitch_store_transaction_duration_seconds_count{type="write"} 2`,
		"nodehitch_store_write_failures_total 1\n",
		`nodehitch_store_bytes{state="used"} 11`,
		`nodehitch_store_bytes{state="free"} 12`,
		"nodehitch_instances_unconfirmed 13\n",
		`nodehitch_lost_vnfc_info{vnf_instance_id="an instance",vnf_instance_name="web",vnfc_info_id="a VNFC"} 1`,
		`nodehitch_node_conditions{role="storage",status="False",type="VolumesMounted"} 14`,
		`nodehitch_node_conditions{role="storage",status="True",type="VolumesMounted"} 0`,
		`nodehitch_node_conditions{role="worker",status="Unknown",type="Ready"} 0`,
		`nodehitch_node_conditions_unmet{reason="ForeignData"} 16`,
		`nodehitch_node_conditions_unmet{reason="InUse"} 0`,
		`nodehitch_node_conditions_unmet{reason="other"} 18`,
		`nodehitch_operation_processing_seconds{operation="SCALE_IN",phase="START"} 19`,
		`nodehitch_operation_processing_seconds{operation="HEAL",phase="END"} 0`,
		`nodehitch_operations_ended_total{operation="HEAL",phase="END",result="failed"} 1`,
		`nodehitch_operations_ended_total{operation="HEAL",phase="END",result="cancelled"} 0`,
		`nodehitch_operation_duration_seconds_sum{operation="HEAL",phase="END",result="failed"} 4`,
		`nodehitch_node_ready_duration_seconds_sum{role="worker"} 9`,
		"nodehitch_node_certificate_expiration_timestamp_seconds 2000\n",
		"nodehitch_backup_age_seconds 90\n",
		`nodehitch_enrollments_total{result="attest_cloud"} 0`,
		`nodehitch_connections_rejected_total{reason="source_limit"} 0`,
		`nodehitch_tls_handshakes_total{result="failure"} 1`,
		`nodehitch_connections_rejected_total{reason="limit"} 1`,
		`nodehitch_connections_closed_total{reason="idle"} 1`,
		`nodehitch_connections{state="unauthenticated"} 3`,
		`nodehitch_connections{state="authenticated"} 4`,
		`nodehitch_tls_handshakes_in_flight 5`,
		`nodehitch_tls_handshakes_in_flight_max 6`,
		`nodehitch_nodes{state="Lost"} 2`,
		`nodehitch_nodes{state="Expected"} 0`,
		`nodehitch_agents{version="v1"} 11`,
		`nodehitch_agents{version="unknown"} 9`,
		`nodehitch_agent_rollout_state{state="Stopped"} 1`,
		`nodehitch_agent_rollout_state{state="Progressing"} 0`,
		`nodehitch_agent_rollout_nodes{state="InFlight"} 3`,
		`nodehitch_agent_rollout_nodes{state="UpToDate"} 0`,
		"nodehitch_agent_rollout_max_unavailable_nodes 7\n",
		`nodehitch_operations{state="PROCESSING"} 0`,
		`nodehitch_certificate_expiration_timestamp_seconds{certificate="root"} 1000`,
		`version="v1.2.3"} 1`,
		"go_goroutines",
		"process_open_fds",
	} {
		if !strings.Contains(text, want+"") {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

// Nodes choose their versions: however many there are, the series are few.
func TestVersionsOfAgentsMakeFewSeries(t *testing.T) {
	m := telemetry.New("v1")
	var counts []api.AgentCount
	for i := range 100 {
		counts = append(counts, api.AgentCount{Version: fmt.Sprintf("v%d", i), State: api.AgentWaiting, Nodes: 1 + i})
	}
	m.CollectState(func() (telemetry.State, error) { return telemetry.State{Agents: api.AgentRollout{Nodes: counts}}, nil }, now, slog.New(slog.DiscardHandler))
	text := scrape(t, m)
	if n := strings.Count(text, "nodehitch_agents{"); n != 11 {
		t.Errorf("%d series, want 11", n)
	}
	for _, want := range []string{`nodehitch_agents{version="v99"} 100`, fmt.Sprintf(`nodehitch_agents{version="other"} %d`, 90*91/2)} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

func TestStateMetricsThatFailLeaveTheRest(t *testing.T) {
	m := telemetry.New("v1")
	var log strings.Builder
	m.CollectState(func() (telemetry.State, error) { return telemetry.State{}, errors.New("the store is closed") }, now, slog.New(slog.NewTextHandler(&log, nil)))
	if text := scrape(t, m); strings.Contains(text, "nodehitch_nodes") || !strings.Contains(text, "nodehitch_long_polls_in_flight 0") {
		t.Error(text)
	}
	if !strings.Contains(log.String(), "the store is closed") {
		t.Error(log.String())
	}
}

// Before the first backup there is no age: a 0 would be a backup of this moment.
func TestWhatIsNotThereHasNoSeries(t *testing.T) {
	m := telemetry.New("v1")
	m.CollectState(func() (telemetry.State, error) { return telemetry.State{}, nil }, now, slog.New(slog.DiscardHandler))
	text := scrape(t, m)
	for _, absent := range []string{"nodehitch_backup_age_seconds", "nodehitch_node_certificate_expiration_timestamp_seconds", "VolumesMounted"} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is in\n%s", absent, text)
		}
	}
}

func TestReplicas(t *testing.T) {
	m := telemetry.New("v1")
	var now telemetry.Replica
	m.CollectReplica(func() telemetry.Replica { return now })
	text := scrape(t, m)
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	if !strings.Contains(text, "nodehitch_replica_is_leader 0\n") || !strings.Contains(text, "nodehitch_replica_term 0\n") ||
		strings.Contains(text, "nodehitch_replicas") || strings.Contains(text, "nodehitch_replica_lag_seconds") {
		t.Errorf("what is not known has a series:\n%s", text)
	}
	live, lag := 3, 1500*time.Millisecond
	now = telemetry.Replica{Leader: true, Term: 48113, Live: &live, Lag: &lag}
	text = scrape(t, m)
	for _, want := range []string{"nodehitch_replica_is_leader 1\n", "nodehitch_replica_term 48113\n", "nodehitch_replicas 3\n", "nodehitch_replica_lag_seconds 1.5\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}
