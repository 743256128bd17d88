package results

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// Suite is a package, or some of its tests.
type Suite struct {
	Package string   // as go test takes it, from the root of the tree
	Tests   []string // none: all
	// System is that of the machines, empty for Debian 12: on another one, tests are
	// repeated that belong to a part for Debian 12.
	System image.System
	// OnEtcd repeats the tests of a package of the product with their stores in an etcd, with
	// fewer checks of the property tests.
	OnEtcd bool
}

// PartLimit is how long a part may take.
const PartLimit = 70 * time.Minute

// Parts is how `make e2e` is divided, in this order: each test of e2e belongs to one part,
// and those of the nodes' roles to one more for each further system.
// None should need more than 35 minutes of a quiet machine with two cores, but for TestAutoHeal,
// which waits through more than an hour, TestKept, whose machines are emulated, and the many clusters
// of TestPowerCutsWhileAClusterOfOneMasterIsMade.
var Parts = [][]Suite{
	{{Package: "./e2e/powercut", Tests: []string{"TestKilledAtEveryStep", "TestPowerCuts", "TestPowerCutsWhileAVolumeGrows", "TestThePlanOfCuts"}}},
	{
		{Package: "./e2e/controllerfault", Tests: []string{"TestPowerCutsOfItsDisk"}},
		{Package: "./agent/..."},
		{Package: "./cloudinit/..."},
		{Package: "./controller/..."},
		{Package: "./packaging/..."},
		{Package: "./shared/..."},
	},
	{
		{Package: "./e2e/controllerfault", Tests: []string{"TestDamagedData", "TestFullDisk", "TestKilledAtEveryTransaction", "TestLockedStore",
			"TestPowerCutOfAnUpgrade", "TestUpgradeAndBack", "TestUpgradeIsKilled", "TestUpgradeOnAFullDisk"}},
		{Package: "./e2e/restore"},
		{Package: "./e2e/versions"},
	},
	{
		{Package: "./e2e/abuse"},
		{Package: "./e2e/fleet"},
		{Package: "./e2e/members"},
	},
	{
		{Package: "./e2e/cluster", Tests: []string{"TestFleets", "TestLife", "TestPush"}},
		{Package: "./e2e/kube"},
		{Package: "./e2e/release"},
	},
	{
		{Package: "./e2e/cases"},
		{Package: "./e2e/agentfault"},
		{Package: "./e2e/upgrade", Tests: []string{"TestABuildThatDoesNotWorkIsTakenBack", "TestAControllerThatIsAwayRefusesNoBuild",
			"TestAGoodBuildReplacesTheAgent", "TestAnAgentThatIsNotToUpgradeStays", "TestKilledDuringAnUpgrade", "TestUnderSystemd"}},
	},
	{
		{Package: "./e2e/agentcontroller"},
		{Package: "./e2e/browser", Tests: []string{"TestAChangeTakesNothingFromTheReader", "TestALargeFleet", "TestALinkOfAnotherSite", "TestAPageFollowsWhatHappens",
			"TestARevokedTokensPageEnds", "TestAxeFindsNothingSerious", "TestNoPageIsWiderThanItsWindow", "TestNoSecretIsInAPage", "TestOnAPhoneHealthyNodesFold", "TestPictures",
			"TestTheCertificateForBrowsers", "TestTheControllerIsKilledAndComesBack", "TestTheKeyboardReachesEverything", "TestThePageShowsTheReplicas"}},
		{Package: "./e2e/demo"},
		{Package: "./e2e/engine"},
		{Package: "./e2e/enroll"},
		{Package: "./e2e/kubeadm"},
		{Package: "./e2e/lab"},
		{Package: "./e2e/lab/image"},
		{Package: "./e2e/lab/qapi"},
		{Package: "./e2e/loopback"},
		{Package: "./e2e/monitoring", Tests: []string{"TestAlerts", "TestAutohealRule", "TestExpressions", "TestRules", "TestTackersSchema"}},
		{Package: "./e2e/breaks"},
		{Package: "./e2e/openapi"},
		{Package: "./e2e/registries"},
		{Package: "./e2e/registry"},
		{Package: "./e2e/results"},
		{Package: "./e2e/tacker"},
		{Package: "./e2e/tree"},
		{Package: "./e2e/trust"},
	},
	{
		{Package: "./e2e/enroll", System: image.Debian13},
		{Package: "./e2e/registries", System: image.Debian13},
		{Package: "./e2e/kube", Tests: []string{"TestLabMachinesReachTheAPIServer"}, System: image.Debian13},
		{Package: "./e2e/cases", System: image.Debian13},
		{Package: "./e2e/tacker", System: image.Debian13, Tests: []string{"TestAnUploadThatIsCut", "TestEveryHookWithEachFault", "TestLife",
			"TestScaleAfterAHeal", "TestSettings", "TestTheUserDataClass", "TestTheVIMOfACluster", "TestUploads", "TestV2"}},
	},
	{
		{Package: "./e2e/cluster", Tests: []string{"TestLife"}, System: image.Debian13},
	},
	{
		{Package: "./e2e/powercut", Tests: []string{"TestPowerCutsOverAnImageLoad"}},
	},
	{
		{Package: "./e2e/packaging"},
		{Package: "./e2e/packaging", Tests: []string{"TestAWorker", "TestAnImageWithTheAgent", "TestAStorageServer", "TestAStorageServersDisk", "TestAController", "TestTackersMachine"}, System: image.Debian13},
	},
	{{Package: "./e2e/replicas"}},
	{
		{Package: "./controller/trust/access", OnEtcd: true},
		{Package: "./controller/agentupgrade", OnEtcd: true},
		{Package: "./controller/httpapi", OnEtcd: true},
		{Package: "./controller/trust/attestation", OnEtcd: true},
		{Package: "./controller/core", OnEtcd: true},
		{Package: "./controller/lifecycle/completion", OnEtcd: true},
		{Package: "./controller/lifecycle/desired", OnEtcd: true},
		{Package: "./controller/lifecycle/discovery", OnEtcd: true},
		{Package: "./controller/trust/enrollment", OnEtcd: true},
		{Package: "./controller/store/event", OnEtcd: true},
		{Package: "./controller/store/files", OnEtcd: true},
		{Package: "./controller/lifecycle/instance", OnEtcd: true},
		{Package: "./controller/lifecycle/invariant", OnEtcd: true},
		{Package: "./controller/lifecycle", OnEtcd: true},
		{Package: "./controller/lifecycle/node", OnEtcd: true},
		{Package: "./controller/lifecycle/operation", OnEtcd: true},
		{Package: "./controller/lifecycle/packagefile", OnEtcd: true},
		{Package: "./controller/permit", OnEtcd: true},
		{Package: "./controller/lifecycle/plan", OnEtcd: true},
		{Package: "./controller/lifecycle/presence", OnEtcd: true},
		{Package: "./controller/lifecycle/progress", OnEtcd: true},
		{Package: "./controller/lifecycle/reconcile", OnEtcd: true},
		{Package: "./controller/replica", OnEtcd: true},
		{Package: "./controller/cloud/stack", OnEtcd: true},
		{Package: "./controller/store/tx", OnEtcd: true},
	},
	{{Package: "./e2e/browser", Tests: []string{"TestANodeThatSaysEverything"}}},
	{{Package: "./e2e/upgrade", Tests: []string{"TestWaves"}}},
	{{Package: "./e2e/upgrade", Tests: []string{"TestWavesUnderSystemd"}}},
	{{Package: "./e2e/powercut", Tests: []string{"TestPowerCutsOverAnAgentUpgrade"}}},
	{{Package: "./e2e/monitoring", Tests: []string{"TestAutoHeal"}}},
	{{Package: "./e2e/cluster", Tests: []string{"TestKept", "TestOldServerMayWrite"}}},
	{{Package: "./e2e/cluster", Tests: []string{"TestKept"}, System: image.Debian13}},
	{{Package: "./e2e/kubernetes", Tests: []string{"TestPowerCutsWhileAClusterOfOneMasterIsMade"}}},
	{{Package: "./e2e/kubernetes", Tests: []string{"TestCertificates", "TestEtcdRestored", "TestQuorumLost"}}},
	{{Package: "./e2e/kubernetes", Tests: []string{"TestBareMachines", "TestBareMachinesWhoseAgentsAreKilled", "TestBesideAnsible", "TestWrongKernel", "TestWrongMachines"}}},
	{{Package: "./e2e/kubernetes", Tests: []string{"TestARecoveryOfYesterdayGoesOn", "TestLife", "TestTheFirstStepKeepsTheManifest", "TestTheRecoveryIsRepeatedUntilItHasEnded",
		"TestTheRecoveryStops", "TestTheRestoreKeepsTheData", "TestTheRestoreStopsAtThatOfLongAgo", "TestThreeMasters", "TestVolumes"}}},
	{{Package: "./e2e/kubernetes", Tests: []string{"TestUpgrade"}}},
	{{Package: "./e2e/kubernetes", Tests: []string{"TestNextMinor", "TestUpgradeThatIsCancelled", "TestUpgradeWhoseAgentsAreKilled"}}},
	{{Package: "./e2e/kubernetes", Tests: []string{"TestKillsWhileClustersAreMade", "TestPowerCutsWhileMastersJoin"}}},
}

// Apart are the packages that no part has: `make e2e-openstack` and `make bench-peers`
// run them.
var Apart = []string{"./e2e/openstack", "./e2e/stacks", "./e2e/peers"}

// CutOff is the outcome of a part that has begun and not finished.
const CutOff = "cut off"

// Run is one run of a part.
type Run struct {
	Part    int     `json:"part"`
	Commit  string  `json:"commit"`
	Outcome string  `json:"outcome"`
	Seconds float64 `json:"seconds"`
}

// PartFolder is the folder of a part's records, below the folder of all.
func PartFolder(folder string, part int) string {
	return filepath.Join(folder, fmt.Sprintf("part-%d", part))
}

// Begin removes the records of an earlier run of the part, and no other's.
func (r Run) Begin(folder string) error {
	if err := os.RemoveAll(PartFolder(folder, r.Part)); err != nil {
		return err
	}
	r.Outcome = CutOff
	return r.Write(folder)
}

// Write writes the run's state beside its records.
func (r Run) Write(folder string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	dir := PartFolder(folder, r.Part)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, runFile), text, 0o644)
}

const runFile = "run.json"

// LoadParts reads the outcome of each part, and the records of all. A part that has never
// begun has no outcome.
func LoadParts(folder string) ([]Run, []Record, error) {
	var runs []Run
	var all []Record
	for i := range Parts {
		run := Run{Part: i + 1}
		text, err := os.ReadFile(filepath.Join(PartFolder(folder, run.Part), runFile))
		if err == nil {
			err = json.Unmarshal(text, &run)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("part %d: %w", run.Part, err)
		}
		records, err := Load(PartFolder(folder, run.Part))
		if err != nil {
			return nil, nil, err
		}
		runs, all = append(runs, run), append(all, records...)
	}
	sortRecords(all)
	return runs, all, nil
}

// MarkdownParts writes the table of the parts, and a line if they are of different commits.
// It returns how many did not succeed.
func MarkdownParts(w io.Writer, runs []Run) (failed int, err error) {
	var out strings.Builder
	fmt.Fprintln(&out, "| part | commit | outcome | time |\n|---|---|---|---|")
	parts := map[string][]string{}
	for _, r := range runs {
		if r.Outcome != OK {
			failed++
		}
		if r.Outcome != "" {
			parts[r.Commit] = append(parts[r.Commit], fmt.Sprint(r.Part))
		}
		took := ""
		if r.Seconds > 0 {
			took = fmt.Sprintf("%.0f s", r.Seconds)
		}
		fmt.Fprintf(&out, "| %d | %s | %s | %s |\n", r.Part, r.Commit, cmp.Or(r.Outcome, "not run"), took)
	}
	if len(parts) > 1 {
		var commits []string
		for commit, of := range parts {
			commits = append(commits, fmt.Sprintf("%s (%s)", commit, strings.Join(of, ", ")))
		}
		slices.Sort(commits)
		fmt.Fprintf(&out, "\nThe parts were run at different commits: %s.\n", strings.Join(commits, "; "))
	}
	_, err = fmt.Fprintln(w, out.String())
	return failed, err
}
