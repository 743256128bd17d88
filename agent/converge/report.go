package converge

import (
	"cmp"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Report is the outcome of one pass.
type Report struct {
	Generation int64
	// Conditions of every step that was not hands off, in their order, Ready last.
	Conditions []api.Condition
	// Results of every step in their order, then those of conditions that the document
	// calls for but no step reports.
	Results []Result
	// BoundPersistentVolumes is what the plans say of them.
	BoundPersistentVolumes []api.BoundPersistentVolume
	// KubeletVersion is that of kubelet on the machine, "" if no plan says it.
	KubeletVersion string
	// ControlPlane is what the plans say of it, nil for nothing.
	ControlPlane *api.ControlPlaneFacts
	// Cluster is what the plans say of the cluster, nil for nothing. It may contain a secret.
	Cluster *api.ClusterFacts
	// FailedCondition is the first condition that only an operator can fix, "" for none.
	FailedCondition string
	// Changed says that an action ran, with or without success.
	Changed bool
	// Interrupted says that the pass was stopped before every step ran.
	Interrupted bool
}

// Result is the result of one step.
type Result struct {
	Condition string
	// HandsOff: the document has no section for this step.
	HandsOff bool
	// Planned at first, Done without error, and Left by the last plan.
	Planned []Action
	Done    []string
	Left    []Action
	// Err is why the step is not converged, nil if only actions are left.
	Err         error
	Interrupted bool

	failed  error // of the actions that were tried
	reason  api.Reason
	message string
	bound   []api.BoundPersistentVolume
	cluster api.ClusterFacts
	control *api.ControlPlaneFacts
	kubelet string
}

// Converged reports whether the last plan of every step was empty and none failed:
// the machine is in the state that the document describes.
func (r *Report) Converged() bool {
	for i := range r.Results {
		if !r.Results[i].converged() {
			return false
		}
	}
	return true
}

// Condition is the condition of this type, nil if it is not reported.
func (r *Report) Condition(conditionType string) *api.Condition {
	s := api.NodeStatus{Conditions: r.Conditions}
	return s.Condition(conditionType)
}

func (r *Result) converged() bool {
	return r.Err == nil && len(r.Left) == 0 && !r.Interrupted
}

// report turns the results into conditions.
func (p *pass) report() Report {
	report := Report{Generation: p.doc.Generation, Results: p.results, Changed: p.changed}
	var not []string
	for i := range p.results {
		r := &p.results[i]
		report.Interrupted = report.Interrupted || r.Interrupted
		if r.HandsOff {
			continue
		}
		report.BoundPersistentVolumes = append(report.BoundPersistentVolumes, r.bound...)
		report.learn(r.cluster)
		report.KubeletVersion = cmp.Or(report.KubeletVersion, r.kubelet)
		if r.control != nil {
			report.ControlPlane = r.control
		}
		v := r.outcome()
		if v.status != api.ConditionTrue {
			not = append(not, r.Condition+" is "+string(v.status)+" ("+v.reason+")")
		}
		if v.terminal && report.FailedCondition == "" {
			report.FailedCondition = r.Condition
		}
		report.Conditions = append(report.Conditions, p.condition(r.Condition, v))
	}
	ready := outcome{status: api.ConditionTrue, reason: api.ReasonReady}
	if len(not) > 0 {
		ready = outcome{status: api.ConditionFalse, reason: api.ReasonNotReady, message: strings.Join(not, ", ")}
	}
	report.Conditions = append(report.Conditions, p.condition(api.ConditionReady, ready))
	return report
}

// learn adds what one step knows of the cluster: one its authority, another its token.
func (r *Report) learn(c api.ClusterFacts) {
	if c == (api.ClusterFacts{}) {
		return
	}
	if r.Cluster == nil {
		r.Cluster = &api.ClusterFacts{}
	}
	if c.CACertificateHash != "" {
		r.Cluster.CACertificate, r.Cluster.CACertificateHash = c.CACertificate, c.CACertificateHash
	}
	if c.Token != "" {
		r.Cluster.Token, r.Cluster.TokenExpiresAt = c.Token, c.TokenExpiresAt
	}
}

func (p *pass) condition(conditionType string, v outcome) api.Condition {
	return Transition(p.o.Previous, api.Condition{
		Type: conditionType, Status: v.status, Reason: v.reason, Message: v.message, Adoptable: v.adoptable,
		ObservedGeneration: p.doc.Generation,
	}, p.Now())
}

// Transition returns c with its lastTransitionTime: the one in previous if the status
// is the same, else now.
func Transition(previous []api.Condition, c api.Condition, now time.Time) api.Condition {
	c.LastTransitionTime = now.UTC().Truncate(time.Second)
	before := (&api.NodeStatus{Conditions: previous}).Condition(c.Type)
	if before != nil && before.Status == c.Status {
		c.LastTransitionTime = before.LastTransitionTime
	}
	return c
}
