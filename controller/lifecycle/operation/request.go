package operation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// checkRequest is what is wrong with a request whatever the instance is.
func checkRequest(r api.OperationRequest) fault.List {
	var list fault.List
	wrong := func(key, format string, args ...any) {
		list = append(list, fault.Root.Key(key).Fault(fmt.Sprintf(format, args...)))
	}
	if !r.Operation.Valid() {
		wrong("operation", "is %q; expected INSTANTIATE, SCALE, HEAL, TERMINATE, CHANGE_EXT_CONN, MODIFY_INFO or CHANGE_VNFPKG", r.Operation)
	}
	if !r.Phase.Valid() {
		wrong("phase", "is %q; expected START or END", r.Phase)
	}
	if r.DeadlineSeconds < 1 || r.DeadlineSeconds > 86400 {
		wrong("deadlineSeconds", "is %d; expected 1 to 86400", r.DeadlineSeconds)
	}
	if r.Operation == api.Scale {
		if !r.Type.Valid() {
			wrong("type", "is %q; SCALE needs SCALE_IN or SCALE_OUT", r.Type)
		}
		if r.NumberOfSteps < 0 {
			wrong("numberOfSteps", "is %d; expected 1 or more", r.NumberOfSteps)
		}
	} else {
		for key, given := range map[string]bool{"type": r.Type != "", "aspectId": r.AspectID != "", "numberOfSteps": r.NumberOfSteps != 0} {
			if given {
				wrong(key, "belongs to SCALE; leave it out of %s", r.Operation)
			}
		}
	}
	leaving := r.Operation == api.Heal || (r.Operation == api.Scale && r.Type == api.ScaleIn)
	if len(r.VnfcInstanceIds) > 0 && !leaving {
		wrong("vnfcInstanceIds", "belongs to HEAL and SCALE_IN; leave it out")
	}
	if r.Force && (!leaving || r.Phase != api.PhaseStart) {
		wrong("force", "is true; it belongs to the START of HEAL and SCALE_IN, whose servers leave the cluster; leave it out of %s", r.Describe())
	}
	if len(r.ConnectionPointNames) > 0 && r.Operation != api.ChangeExtConn {
		wrong("connectionPointNames", "belongs to CHANGE_EXT_CONN; leave it out of %s", r.Operation)
	}
	if r.Operation == api.Scale && r.Type == api.ScaleIn && r.Phase == api.PhaseStart && len(r.VnfcInstanceIds) == 0 {
		wrong("vnfcInstanceIds", "is empty; SCALE_IN START names the VNFC instances that leave")
	}
	slices.SortFunc(list, func(a, b fault.Fault) int { return cmp.Compare(a.Pointer, b.Pointer) })
	return list
}
