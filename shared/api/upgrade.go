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

// UpgradeReasons says what each of them means and what the reader should do.
var UpgradeReasons = map[string]ReasonDoc{
	UpgradeUpToDate:         {Meaning: "the agent runs the build that the controller wants, or the controller wants none"},
	UpgradeManagedByPackage: {"the agent is `/usr/bin/nodehitch-agent` of a package", "upgrade the package", passing},
	UpgradeDisabled:         {"`agent.yaml` says `upgrade: none`", "fetch the agent by hand: `python3 -I /var/lib/nodehitch/bootstrap.py` on the node", passing},
	UpgradeDownloading:      {Meaning: "the build is downloaded and checked"},
	UpgradeSwitching:        {Meaning: "the build is checked; the switch waits for the end of a pass, a format, a renewal of the certificate, and a controller that answers"},
	UpgradeProbation:        {Meaning: "the new build runs and is not healthy yet. The message says what is missing. After 5 minutes it is rolled back"},
	UpgradeRolledBack: {"the build did not become healthy. The old one runs again and refuses that build from then on",
		"read the message and `journalctl -u nodehitch-agent`; upgrade to another build. To allow the same one again, stop the agent, remove `/var/lib/nodehitch/agent/upgrade.json`, start it", passing},
	UpgradeRolledBackUnjudged: {Meaning: "the build did not become healthy, and no controller answered the old one either. It is tried again, after 5 minutes the first time"},
	UpgradeFailed: {"the download or a check failed, or no unit guards the agent",
		"read the message; the agent tries again. `nodehitch-agent install` writes the unit", passing},
}
