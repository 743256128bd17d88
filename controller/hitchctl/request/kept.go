package request

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// mended is the one parameter with line breaks that base HOTs of earlier releases have. They and
// the driver repair it.
const mended = "nodehitch_root_certificate"

// checkParameters: Tacker's v1 API keeps the parameters of a stack as the text of a Python dict,
// and reads that as YAML, at each heal again.
func (r *Request) checkParameters(t *templates) {
	if r.Kind != Tacker || t.v2() {
		return
	}
	var given map[string]any
	_ = json.Unmarshal(r.Spec.AdditionalParams, &given) // it was read before
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if name == mended || !slices.Contains(t.parameters, name) {
			continue
		}
		instead := "give a value without them, or make it the parameter's default in the base HOT"
		if strings.HasSuffix(name, "_user_data") {
			instead = "put the text into a software config of the stack's project (`openstack software config create --config-file FILE --group ungrouped NAME`) and give its id"
		}
		r.refuse(r.name, altered(given[name], fault.Root.Key("additionalParams").Key(name), instead))
	}
}

// altered are the texts in a value that do not stay as they are.
func altered(value any, at fault.At, instead string) (faults fault.List) {
	switch v := value.(type) {
	case string:
		if found := hot.Unkept(v); found != "" {
			faults = fault.List{at.Fault(fmt.Sprintf("holds %s, which Tacker's v1 API alters in parameters of the base HOT at each heal; %s", found, instead))}
		}
	case []any:
		for i, each := range v {
			faults = append(faults, altered(each, at.Index(i), instead)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			faults = append(append(faults, altered(name, at.Key(name), instead)...), altered(v[name], at.Key(name), instead)...)
		}
	}
	return faults
}
