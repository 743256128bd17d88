package api

// The values of the field event in the logs: the lines that programs may read. What a
// line says may change, its event does not.
const (
	EventNodeEnrolled       = "node.enrolled"
	EventEnrollmentRefused  = "enrollment.refused"
	EventCertificateRenewed = "certificate.renewed"
	EventIdentityRevoked    = "identity.revoked"
	EventOperationStarted   = "operation.started"
	EventOperationFinished  = "operation.finished"
	EventPermitChanged      = "permit.changed"
	EventTokenCreated       = "token.created"
	EventTokenRevoked       = "token.revoked"
	EventInstanceConfirmed  = "instance.confirmed"
	EventTokenConfirmed     = "token.confirmed"
	EventPageSignedIn       = "page.signed-in"
	EventPageRefused        = "page.refused"
	EventBackupTaken        = "backup.taken"
	EventStoreMigrated      = "store.migrated"
	EventRolloutStarted     = "rollout.started"
	EventRolloutPaused      = "rollout.paused"
	EventRolloutStopped     = "rollout.stopped"
	EventRolloutWave        = "rollout.wave"

	EventAgentStarted     = "agent.started"
	EventConditionChanged = "condition.changed"
	EventActionStarted    = "action.started"
	EventActionFinished   = "action.finished"
	EventActionFailed     = "action.failed"
	EventAgentUpgrade     = "agent.upgrade"
	EventAgentUpgraded    = "agent.upgraded"
	EventAgentRolledBack  = "agent.rolled-back"
)
