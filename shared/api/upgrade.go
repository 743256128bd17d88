package api

// The reasons of an AgentUpgrade. They are part of the API: a name never changes its
// meaning.
const (
	// UpgradeUpToDate: the agent runs the build that the controller wants, or the controller
	// wants none.
	UpgradeUpToDate = "UpToDate"
	// UpgradeManagedByPackage: the machine's package manager owns the agent's binary.
	UpgradeManagedByPackage = "ManagedByPackage"
	// UpgradeDisabled: agent.yaml says `upgrade: none`.
	UpgradeDisabled = "UpgradeDisabled"
	// UpgradeDownloading: the wanted build is being downloaded and checked.
	UpgradeDownloading = "Downloading"
	// UpgradeSwitching: the wanted build is verified; the switch waits for the end of a pass.
	UpgradeSwitching = "Switching"
	// UpgradeProbation: the new build runs, and is not healthy yet.
	UpgradeProbation = "Probation"
	// UpgradeRolledBack: the old build runs again, and the new one is refused from then on.
	UpgradeRolledBack = "RolledBack"
	// UpgradeRolledBackUnjudged: the old build runs again. No controller answered anybody, so
	// the new one is not refused.
	UpgradeRolledBackUnjudged = "RolledBackUnjudged"
	// UpgradeFailed: the wanted build did not come, or failed a check. The agent tries again.
	UpgradeFailed = "Failed"
)
