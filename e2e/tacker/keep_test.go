package tacker

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// keeper is a VNF whose storage server keeps its PersistentVolumes at a heal, by one of Tacker's APIs.
type keeper struct {
	*vnf
	// old is the storage server that is healed.
	old string
	// request and removed are of the heal in progress, known is what Tacker's v2 API knew of the stack when it began.
	request, removed, known object
}

// newKeeper is a VNF that is instantiated. prepare changes it before.
func (w *tackerMachine) newKeeper(version string, prepare func(*vnf)) *keeper {
	w.t.Helper()
	v := w.newVNF()
	v.wanted()["k8s_cluster_installation_param"].(object)["storage_server"].(object)["persistent_volumes_at_heal"] = "keep"
	prepare(v)
	if version == "v2" {
		v.asV2().instantiated()
	} else {
		v.instantiated()
	}
	return &keeper{vnf: v}
}

// start is heal_start of the storage server. Without given it is what Tacker's alert interface posts, too: the VNFC and nothing else.
func (k *keeper) start(given object) (problem string) {
	k.t.Helper()
	k.old = k.storage.id
	if k.script == nil {
		k.begin("HEAL", nil)
		k.request = healRequest(k.storage)
		if given != nil {
			k.request["additional_params"] = given
		}
		return k.call("heal_start", k.request, nil).problem()
	}
	k.script.next()
	k.request, k.removed = k.script.healOf(k.storage)
	if given != nil {
		k.request["additionalParams"] = given
	}
	if k.required && given["all"] == true {
		grant := k.removed["grant_request"].(object)
		grant["removeResources"] = append(grant["removeResources"].([]object), object{"type": "STORAGE", "resourceTemplateId": volumeName, "resource": object{"resourceId": k.volume}})
	}
	k.script.healing, k.known = k.request, k.script.info()
	return k.script.exec("heal_start", k.request, k.removed).problem()
}

// end is heal_end.
func (k *keeper) end() (problem string) {
	k.t.Helper()
	if k.script == nil {
		return k.call("heal_end", k.request, nil).problem()
	}
	return k.script.exec("heal_end", k.request, k.removed).problem()
}

// again is Tacker's retry after heal_end has failed. The v2 API begins with heal_start, of the server that it knew, and Heat
// replaces the new one too.
func (k *keeper) again() (problem string) {
	k.t.Helper()
	if k.script != nil {
		k.script.known = k.known
		problem := k.script.exec("heal_start", k.request, k.removed).problem()
		k.script.known = nil
		if problem != "" {
			return problem
		}
		k.healed(k.storage)
	}
	return k.end()
}

// TestAHealThatKeeps heals the storage server by either API: what becomes of the PersistentVolumes is what the
// parameters say, or the request of the heal.
func TestAHealThatKeeps(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			results.Begin(t, suite, "keep/"+version, "a heal of the storage server keeps the PersistentVolumes if the parameters say so, also one that the alert interface begins; the request may say otherwise, and that the old server is off; heal_end waits while the old server may still write")
			w := newTackerMachine(t)
			k := w.newKeeper(version, func(*vnf) {})
			hitchctl := func(args ...string) {
				t.Helper()
				if _, err := w.Hitchctl(args...); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range []struct {
				given object
				// between is what an operator does meanwhile.
				between func()
				want    []string
			}{
				{nil, func() {}, []string{"START keep ", "END keep "}},
				{object{"persistent_volumes": "keep"}, func() {}, []string{"START keep ", "END keep "}},
				{object{"old_server_is_off": true}, func() { hitchctl("operate", k.id, "MODIFY_INFO", "--wait") },
					[]string{"START keep token tacker", "END  ", "END keep token tacker"}},
				{object{"persistent_volumes": "withdraw"}, func() {}, []string{"START withdraw ", "END withdraw "}},
				{object{"persistent_volumes": "withdraw"}, func() { hitchctl("cancel", "operation", k.newest().ID) }, []string{"START withdraw ", "END keep "}},
			} {
				before := len(k.operations())
				if problem := k.start(c.given); problem != "" {
					t.Fatalf("%v: heal_start: %s", c.given, problem)
				}
				c.between()
				k.healed(k.storage)
				if problem := k.end(); problem != "" {
					t.Fatalf("%v: heal_end: %s", c.given, problem)
				}
				var got []string
				for _, o := range k.operations()[before:] {
					got = append(got, fmt.Sprintf("%s %s %s", o.Phase, o.PersistentVolumes, o.OldServerIsOffBy))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("%v: the controller has %q, want %q", c.given, got, c.want)
				}
			}

			if k.script != nil {
				k.script.older = true // its heal_end is not told which servers there were
			}
			if problem := k.start(nil); problem != "" {
				t.Fatal(problem)
			}
			k.healed(k.storage)
			w.cloud.Put(openstacktest.Server{ID: k.old, Name: k.storage.name})
			w.configure(map[string]string{"deadline": "6"})
			problem := k.end()
			t.Logf("heal_end says %s", problem)
			if !strings.Contains(problem, "OldServerMayWrite") || !strings.Contains(problem, k.old) {
				t.Errorf("while the old server is there, heal_end says %q", problem)
			}
			w.configure(nil)
			w.cloud.Remove(k.old)
			if problem := k.again(); problem != "" {
				t.Errorf("when the old server is gone, a retry says %q", problem)
			}
			if o := k.newest(); o.PersistentVolumes != api.KeepPersistentVolumes {
				t.Errorf("the retry's END has %q", o.PersistentVolumes)
			}
		})
	}
}

// TestAHealThatCannotKeep has each reason in the text that Tacker shows.
func TestAHealThatCannotKeep(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			results.Begin(t, suite, "keep-refused/"+version, "heal_start refuses what cannot be kept, and says each reason: a port and a volume of the server's own Heat group, a PersistentVolume with NFSv3, a volume that Tacker itself would empty, a wrong word")
			w := newTackerMachine(t)
			k := w.newKeeper(version, func(v *vnf) {
				v.grouped = true
				manifest := filepath.Join(v.files, "Files/kubernetes/nfs-pv2.yaml")
				text, err := os.ReadFile(manifest)
				if err == nil {
					err = os.WriteFile(manifest, append(text, "  mountOptions: [hard, nfsvers=3]\n"...), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			})
			before := len(k.operations())
			refused := func(given object, reasons ...string) {
				t.Helper()
				problem := k.start(given)
				t.Logf("%v: heal_start says %s", given, problem)
				for _, reason := range reasons {
					if !strings.Contains(problem, reason) {
						t.Errorf("%v: heal_start says %q, want %q too", given, problem, reason)
					}
				}
			}
			refused(nil, `of "storage_server_CP", a port in the nested stack `+k.storage.member, `the volume "storage_server_volume" stands in the nested stack`, "nfsvers=3")
			refused(object{"persistent_volumes": "perhaps"}, "/persistentVolumes: found another value, expected one of ", "keep", "withdraw")
			refused(object{"persistent_volumes": "", "old_server_is_off": "yes"}, "/persistentVolumes: ")
			refused(object{"persistent_volumes": "withdraw", "old_server_is_off": true}, "/oldServerIsOff: ")
			k.asRecorded(before)

			k = w.newKeeper(version, func(v *vnf) { v.required = true })
			emptied, kept := object{}, object{"tacker_extension_heal_include_block_storage": false} // v1
			if version == "v2" {
				emptied, kept = object{"all": true}, object{"all": false}
			}
			refused(emptied, "would replace the volume storage_server_volume by an empty one")
			withdrawn := maps.Clone(emptied)
			withdrawn["persistent_volumes"] = "withdraw"
			for _, given := range []object{kept, withdrawn} {
				if problem := k.start(given); problem != "" {
					t.Errorf("%v: heal_start says %q", given, problem)
				}
			}
		})
	}
}
