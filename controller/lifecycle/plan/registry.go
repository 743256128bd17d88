package plan

import (
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// publicImage is what the node pulls if the package brings no image.
// REG, `docker run`.
const publicImage = "registry:latest"

// addRegistry gives the registry VNF's server its section, and the volume that its
// data lies on if the parameters name one.
func (n *Node) addRegistry(in Input, s api.Server) (uses []VolumeUse) {
	r := in.Params.Registry
	section := &api.RegistrySection{Port: int(r.Port), DataDirectory: r.DataDirectory()}
	if r.Volume != nil {
		uses = n.addStorage(in, s, wantedStorage{volumes: []params.Volume{*r.Volume}})
		if n.Config.Storage == nil {
			// Without it the container would fill the directory that the volume hides.
			n.withhold(api.SectionRegistry, n.why(api.SectionStorage).Reason, fmt.Sprintf(
				"the registry's data belongs on the volume %q, which it does not have", r.Volume.ResourceID))
		}
	}
	if r.ImagePath == "" {
		section.Image.Reference = publicImage
	} else {
		section.Image.File = n.file(in, api.SectionRegistry, r.ImagePath)
	}
	if !n.withholds(api.SectionRegistry) && n.takes(in, api.SectionRegistry, section) {
		n.Config.Registry = section
	}
	return uses
}
