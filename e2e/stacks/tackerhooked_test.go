package stacks

import (
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// hooked is a VNF that one of Tacker's APIs takes through its life, by hooks of ours around what Heat does.
type hooked interface {
	asOnboarded() *tackerVNF
	instantiate()
	terminate(*results.Case)
}

func (v *tackerVNF) asOnboarded() *tackerVNF { return v }

// begun instantiates a VNF, until each of these nodes is Ready.
func begun(h hooked, count map[api.Role]int, r *results.Case) {
	v := h.asOnboarded()
	v.t.Helper()
	began := time.Now()
	h.instantiate()
	r.Figure("from instantiate_start to the end of instantiate_end", "%.1f s", time.Since(began).Seconds())
	if i := v.instance(); i.State != api.Instantiated || i.StackID != v.stack {
		v.t.Errorf("after instantiate_end the instance is %s with the stack %s; Heat made %s", i.State, i.StackID, v.stack)
	}
	v.attested(count)
}

// byTacker instantiates the cluster.
func (c *cluster) byTacker(h hooked, r *results.Case) {
	c.t.Helper()
	c.newKubernetes()
	begun(h, whole, r)
	c.available()
}
