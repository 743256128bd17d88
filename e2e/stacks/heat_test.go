package stacks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestHeat has Heat's command line check the templates, and Heat wait for machines.
func TestHeat(t *testing.T) {
	w := newWorld(t, nil)
	v := w.newVNF("simple", plainRequest, clusterPackage, map[string]any{"nodehitch_wait_for_nodes": true})
	for _, c := range []struct {
		name, shows string
		do          func(*vnf, *results.Case)
	}{
		{"templates", "each template, as hitchctl writes them, is valid to `openstack orchestration template validate`", (*vnf).templates},
		{"heat-waits", "with nodehitch_wait_for_nodes the stack is complete when its machines are; they enroll while Heat is still creating it", (*vnf).waitedFor},
		{"made-anew", "the whole VNF is healed by a new stack of the same name, which waits for its machines; the controller finds its id", (*vnf).madeAnew},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := results.Begin(t, suite, c.name, c.shows)
			w.T = t
			c.do(v, r)
		})
	}
}

// templates follows the steps of docs/heat-templates.md.
func (v *vnf) templates(r *results.Case) {
	ctx, dir := v.T.Context(), v.T.TempDir()
	parameters := filepath.Join(dir, "nodehitch.yaml")
	v.Must("render", "hot", dir)
	v.Must("render", "hot-parameters", v.id, "--file", parameters)
	written, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		v.T.Fatal(err)
	}
	for _, path := range written {
		text, err := os.ReadFile(path)
		if err == nil {
			err = v.cloud.WriteFile(ctx, path, text)
		}
		if err != nil {
			v.T.Fatal(err)
		}
	}
	valid := 0
	for _, path := range written {
		validate := []string{"orchestration", "template", "validate", "-t", path}
		switch name := strings.TrimSuffix(filepath.Base(path), ".yaml"); {
		case path == parameters, name == "example-environment":
			continue
		case slices.Contains(hot.Flavours, name):
			validate = append(validate, "-e", filepath.Join(dir, "example-environment.yaml"), "-e", parameters)
		}
		if _, err := v.cloud.OpenStack(ctx, validate...); err != nil {
			v.T.Error(err)
			continue
		}
		valid++
	}
	r.Figure("valid templates", "%d", valid)
	if len(written) != valid+2 {
		v.T.Errorf("%d of %d files are valid templates; two are environments", valid, len(written))
	}
}

// waitedFor are machines that only Heat tells the controller of: they call, the
// controller discovers them in the stack, and they converge.
func (v *vnf) waitedFor(r *results.Case) {
	began := time.Now()
	v.begin()
	_, err := v.Hitchctl(v.T.Context(), "operate", v.id, string(api.Instantiate))
	if err == nil || !strings.Contains(err.Error(), "CREATE_IN_PROGRESS") {
		v.T.Errorf("an END while Heat is creating the stack: %v; want that as the reason", err)
	}
	v.finished("CREATE_COMPLETE")
	r.Figure("stack CREATE_COMPLETE with every machine converged", "%.1f s", time.Since(began).Seconds())
	v.attested(map[api.Role]int{api.RoleMaster: 1, api.RoleWorker: 2})
	ended := time.Now()
	v.operate(api.Instantiate)
	r.Figure("the END after it", "%.1f s", time.Since(ended).Seconds())
}

func (v *vnf) madeAnew(r *results.Case) {
	before := v.stack
	v.operate(api.Heal, "--phase=START")
	v.remove()
	began := time.Now()
	v.create()
	r.Figure("stack CREATE_COMPLETE with every machine converged", "%.1f s", time.Since(began).Seconds())
	v.operate(api.Heal)
	v.attested(map[api.Role]int{api.RoleMaster: 1, api.RoleWorker: 2})
	if i := v.instance(); i.StackID != v.stack || v.stack == before {
		v.T.Errorf("the instance has the stack %s, Heat made %s after %s", i.StackID, v.stack, before)
	}
}
