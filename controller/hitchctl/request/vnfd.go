package request

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/hitchctl/csar"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// definition is what is read of a file of the VNFD.
type definition struct {
	file     string
	Imports  []any `json:"imports"`
	Topology struct {
		Mappings struct {
			Properties struct {
				FlavourID string `json:"flavour_id"`
			} `json:"properties"`
		} `json:"substitution_mappings"`
		Nodes    map[string]node     `json:"node_templates"`
		Policies []map[string]policy `json:"policies"`
	} `json:"topology_template"`
}

type node struct {
	Type         string                    `json:"type"`
	Interfaces   map[string]map[string]any `json:"interfaces"`
	Artifacts    map[string]any            `json:"artifacts"`
	Requirements []map[string]any          `json:"requirements"`
	Properties   struct {
		Image struct {
			Name string `json:"name"`
		} `json:"sw_image_data"`
	} `json:"properties"`
}

type policy struct {
	Type       string `json:"type"`
	Properties struct {
		Aspects map[string]any `json:"aspects"`
		Aspect  string         `json:"aspect"`
	} `json:"properties"`
	Targets []string `json:"targets"`
}

// Types of SOL001 that stand for resources of the stack.
const (
	computeType = "tosca.nodes.nfv.Vdu.Compute"
	pointType   = "tosca.nodes.nfv.VduCp"
	storageType = "tosca.nodes.nfv.Vdu.VirtualBlockStorage"
)

const nodesPointer = fault.At("/topology_template/node_templates")

// maxDefinitions is how many files a VNFD may have.
const maxDefinitions = 100

// checkVNFD reads the VNFD from its first file on, and compares the request's flavour with
// the Heat templates.
func (r *Request) checkVNFD(p *Package, entry string) error {
	flavours, before := map[string]*definition{}, len(r.Faults)
	files := []imported{{file: entry, by: csar.MetaFile}}
	for i := 0; i < len(files); i++ {
		d, err := r.definition(p, files[i])
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		if id := d.Topology.Mappings.Properties.FlavourID; id != "" {
			flavours[id] = d
		}
		for _, more := range d.imports() {
			if len(files) < maxDefinitions && !slices.ContainsFunc(files, func(f imported) bool { return f.file == more.file }) {
				files = append(files, more)
			}
		}
	}
	ids := slices.Sorted(maps.Keys(flavours))
	flavour := r.flavour
	if flavour == "" && len(ids) == 1 {
		flavour = ids[0]
	}
	d := flavours[flavour]
	switch {
	case d != nil:
		return r.checkFlavour(p, flavour, d)
	case len(ids) == 0 && len(r.Faults) == before:
		r.refuse(entry, asList(nil, "neither it nor what it imports has a deployment flavour (substitution_mappings with flavour_id)"))
	case flavour != "" && len(ids) > 0:
		r.refuse(r.name, fault.List{fault.Root.Key("flavourId").Fault(fmt.Sprintf(
			"%q is no deployment flavour of the package's VNFD; expected %s", flavour, strings.Join(ids, " or ")))})
	}
	return nil
}

// imported is a file of the VNFD, and which document names it, and where.
type imported struct {
	file, by string
	at       fault.At
}

// definition reads a file of the VNFD. If it is not there or cannot be used that is a fault,
// and the definition nil.
func (r *Request) definition(p *Package, i imported) (*definition, error) {
	if info, err := fs.Stat(p, i.file); err != nil || !info.Mode().IsRegular() {
		message := i.file + ", the VNFD or a part of it, is not in the package"
		if slices.Contains(csar.TypeFiles, path.Base(i.file)) {
			message = i.file + " is not in the package; it is one of ETSI's type definitions, which `hitchctl package build --etsi-types` copies"
		}
		r.refuse(i.by, fault.List{i.at.Fault(message)})
		return nil, nil
	}
	text, err := r.document(p, i.file)
	if err != nil || text == nil {
		return nil, err
	}
	d := &definition{file: i.file}
	if err := json.Unmarshal(text, d); err != nil {
		r.refuse(i.file, asList(nil, fmt.Sprintf("is no file of a VNFD: %v", err)))
		return nil, nil
	}
	return d, nil
}

// imports are the files of the package that a definition imports.
func (d *definition) imports() (files []imported) {
	for i, each := range d.Imports {
		name, _ := each.(string)
		if long, ok := each.(map[string]any); ok {
			name, _ = long["file"].(string)
		}
		if name != "" && !strings.Contains(name, "://") {
			files = append(files, imported{path.Join(path.Dir(d.file), name), d.file, fault.Root.Key("imports").Index(i)})
		}
	}
	return files
}

// checkFlavour compares a deployment flavour with its Heat templates and with the request.
func (r *Request) checkFlavour(p *Package, id string, d *definition) error {
	own := path.Join(baseHOT, id)
	if r.templates == nil || r.templates.root != own && r.flavour != "" {
		r.refuse(own, asList(nil, "has no Heat template: Tacker takes the base HOT of the deployment flavour from there"))
		return nil
	}
	t := r.templates
	vdus, points, storages := d.nodes(computeType), d.nodes(pointType), d.nodes(storageType)
	r.oneBaseHOT(t)
	for _, has := range []struct {
		names, made []string
		kind        string
	}{{vdus, t.servers, "server (OS::Nova::Server)"}, {points, t.points, "port (OS::Neutron::Port)"}, {storages, t.volumes, "volume (OS::Cinder::Volume)"}} {
		for _, name := range has.names {
			if !slices.Contains(has.made, name) {
				r.refuseOrWarn(t, d.file, nodesPointer.Key(name).Fault(fmt.Sprintf("the Heat templates make no %s of this name; expected %s", has.kind, oneOf(has.made))))
			}
		}
	}
	r.checkNFV(t, id, vdus, points)
	r.checkHeals(t, d, vdus)
	r.checkAspects(t, d)
	r.checkDriver(p, t, d)
	r.checkLinks(t, points)
	r.checkImages(t, d, vdus)
	r.checkNesting(t)
	r.checkParameters(t)
	return r.checkUserData(p, t)
}

// nodes are the node templates of a type.
func (d *definition) nodes(kind string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(d.Topology.Nodes)) {
		if d.Topology.Nodes[name].Type == kind {
			names = append(names, name)
		}
	}
	return names
}

func (r *Request) refuseOrWarn(t *templates, document string, f fault.Fault) {
	if t.foreign != "" {
		f.Message += fmt.Sprintf(", or one that %s makes", t.foreign)
		r.warn(document, fault.List{f})
		return
	}
	r.refuse(document, fault.List{f})
}

// oneBaseHOT: of several Tacker takes any, and it gives Heat only the templates in nested.
func (r *Request) oneBaseHOT(t *templates) {
	var top, nested []string
	for _, file := range t.files {
		switch {
		case path.Dir(file) == t.root:
			top = append(top, file)
		case path.Base(path.Dir(file)) == "nested":
			nested = append(nested, path.Base(file))
		}
	}
	if len(top) != 1 && path.Dir(t.root) == baseHOT {
		r.refuse(t.root, asList(nil, fmt.Sprintf("expected one Heat template beside nested/, found %d: %s", len(top), strings.Join(top, ", "))))
	}
	for _, name := range slices.Sorted(maps.Keys(t.nested)) {
		if !slices.Contains(nested, name) {
			r.refuse(t.nested[name], asList(nil, fmt.Sprintf("names the template %s, which is not in %s/nested", name, t.root)))
		}
	}
}

// orNone are names of the VNFD.
func orNone(names []string) string {
	if len(names) == 0 {
		return "one, and the VNFD has none"
	}
	return strings.Join(names, " or ")
}

// checkNFV: Tacker fills the parameter nfv for the names of the VNFD. Each version of its API
// has its own names for flavor and image.
func (r *Request) checkNFV(t *templates, flavour string, vdus, points []string) {
	var names []string
	for _, member := range t.nfv {
		part := strings.Split(member, "/")
		known, kind := vdus, "VDU"
		if part[0] == "CP" {
			known, kind = points, "connection point"
		}
		if name := part[1]; part[0] == "VDU" || part[0] == "CP" {
			if !slices.Contains(known, name) && !slices.Contains(names, part[0]+name) {
				names = append(names, part[0]+name)
				r.refuse(t.root, asList(nil, fmt.Sprintf("nfv/%s/%s: the deployment flavour %s has no such %s; expected %s", part[0], name, flavour, kind, orNone(known))))
			}
		}
	}
	if t.takes("flavor", "image") && t.takes("computeFlavourId", "vcImageId") {
		r.refuse(t.root, asList(nil, "takes flavor or image from nfv, as Tacker's v1 API has them, and computeFlavourId or vcImageId, as the v2 API has; expected one of the two"))
	}
}

// takes says whether the templates take one of these of a VDU.
func (t *templates) takes(members ...string) bool {
	return slices.ContainsFunc(t.nfv, func(path string) bool {
		return slices.Contains(members, path[strings.LastIndex(path, "/")+1:])
	})
}

// v2 says whether the templates are for the v2 API.
func (t *templates) v2() bool { return t.takes("computeFlavourId", "vcImageId", "desired_capacity") }

// checkHeals: at a heal the v1 API has Heat replace the volumes that a VDU requires.
func (r *Request) checkHeals(t *templates, d *definition, vdus []string) {
	for _, vdu := range vdus {
		for i, requirement := range d.Topology.Nodes[vdu].Requirements {
			if volume := requirement["virtual_storage"]; volume != nil && !t.v2() {
				r.warn(d.file, fault.List{nodesPointer.Key(vdu).Key("requirements").Index(i).Fault(fmt.Sprintf(
					"at each heal of this server Tacker's v1 API replaces the volume %v by an empty one; without this requirement it keeps the volume", volume))})
			}
		}
	}
}

// checkImages: the v1 API uploads an image for each VDU that has a file for one, and at a heal
// Heat gets its name.
func (r *Request) checkImages(t *templates, d *definition, vdus []string) {
	for _, vdu := range vdus {
		n := d.Topology.Nodes[vdu]
		uploads := slices.ContainsFunc(slices.Collect(maps.Values(n.Artifacts)), func(artifact any) bool {
			content, _ := artifact.(map[string]any)
			return content["type"] == "tosca.artifacts.nfv.SwImage"
		})
		for _, other := range vdus {
			if name := n.Properties.Image.Name; uploads && !t.v2() && other != vdu && d.Topology.Nodes[other].Properties.Image.Name == name {
				r.refuse(d.file, fault.List{nodesPointer.Key(vdu).Key("properties").Key("sw_image_data").Key("name").Fault(fmt.Sprintf(
					"the image of %s is called %q too; Tacker's v1 API uploads one for each VDU, and at a heal Heat finds several of this name: give each a name of its own, as `hitchctl package build` does", other, name))})
				break
			}
		}
	}
}

// checkNesting: to change the external connectivity, the v1 API gives Heat the stack's template
// and of the nested ones only those of groups' members.
func (r *Request) checkNesting(t *templates) {
	for _, name := range slices.Sorted(maps.Keys(t.alone)) {
		if !t.v2() {
			r.warn(t.alone[name], fault.List{fault.Root.Key("resources").Key(name).Fault(
				"is a nested template, and no member of a group: Tacker's v1 API can never change the external connectivity of such a VNF; build the package anew with `hitchctl package build`, or put the resources of the nested template here")})
		}
	}
}

// checkAspects: the v1 API signals the scaling policies of the aspect's name, the v2 API sets
// the size of the group of the aspect's VDUs.
func (r *Request) checkAspects(t *templates, d *definition) {
	at := fault.Root.Key("topology_template").Key("policies")
	for i, each := range d.Topology.Policies {
		for name, policy := range each {
			here := at.Index(i).Key(name)
			switch {
			case policy.Type == "tosca.policies.nfv.ScalingAspects" && !t.v2():
				for _, aspect := range slices.Sorted(maps.Keys(policy.Properties.Aspects)) {
					for _, needed := range []string{aspect + "_scale_in", aspect + "_scale_out"} {
						if !slices.Contains(t.policies, needed) {
							r.refuseOrWarn(t, d.file, here.Key("properties").Key("aspects").Key(aspect).Fault(fmt.Sprintf(
								"the Heat templates have no scaling policy %s, which Tacker's v1 API signals; expected %s", needed, oneOf(t.policies))))
						}
					}
				}
			case policy.Type == "tosca.policies.nfv.VduScalingAspectDeltas" && t.v2():
				for j, vdu := range policy.Targets {
					if !slices.Contains(t.nfv, "VDU/"+vdu+"/desired_capacity") {
						r.refuse(d.file, fault.List{here.Key("targets").Index(j).Fault(fmt.Sprintf(
							"no group of the Heat templates takes its size from nfv/VDU/%s/desired_capacity, by which Tacker's v2 API scales", vdu))})
					}
				}
			}
		}
	}
}

// checkDriver: without its driver Tacker fails every operation.
func (r *Request) checkDriver(p *Package, t *templates, d *definition) {
	for _, name := range slices.Sorted(maps.Keys(d.Topology.Nodes)) {
		n, at := d.Topology.Nodes[name], nodesPointer.Key(name)
		for _, hook := range slices.Sorted(maps.Keys(n.Interfaces["Vnflcm"])) {
			operation, _ := n.Interfaces["Vnflcm"][hook].(map[string]any)
			driver, _ := operation["implementation"].(string)
			if _, there := n.Artifacts[driver]; driver != "" && !there {
				r.refuse(d.file, fault.List{at.Key("interfaces").Key("Vnflcm").Key(hook).Fault(fmt.Sprintf(
					"the node has no artifact %q; expected %s", driver, orNone(slices.Sorted(maps.Keys(n.Artifacts)))))})
			}
		}
		for _, artifact := range slices.Sorted(maps.Keys(n.Artifacts)) {
			content, _ := n.Artifacts[artifact].(map[string]any)
			file, _ := content["file"].(string)
			base := path.Dir(d.file)
			if content["type"] == "tosca.artifacts.Implementation.Python" && !t.v2() {
				base = "."
			}
			full := path.Join(base, file)
			if info, err := fs.Stat(p, full); file != "" && !strings.Contains(file, "://") && (err != nil || !info.Mode().IsRegular()) {
				r.refuse(d.file, fault.List{at.Key("artifacts").Key(artifact).Key("file").Fault(full + " is not in the package")})
			}
		}
	}
}

// checkLinks: Tacker puts each connection point on the network for which the request names it.
func (r *Request) checkLinks(t *templates, points []string) {
	if r.Kind != Tacker {
		return
	}
	at := fault.Root.Key("extVirtualLinks")
	var links []struct {
		Points []struct {
			ID string `json:"cpdId"`
		} `json:"extCps"`
	}
	_ = json.Unmarshal(r.links, &links) // its shape is checked with the body
	linked := map[string]bool{}
	for i, link := range links {
		for j, point := range link.Points {
			linked[point.ID] = true
			if !slices.Contains(points, point.ID) {
				r.refuse(r.name, fault.List{at.Index(i).Key("extCps").Index(j).Key("cpdId").Fault(fmt.Sprintf(
					"%q is no connection point of the deployment flavour; expected %s", point.ID, orNone(points)))})
			}
		}
	}
	for _, member := range t.nfv {
		part := strings.Split(member, "/")
		if part[0] == "CP" && part[2] == "network" && !linked[part[1]] && slices.Contains(points, part[1]) {
			r.refuse(r.name, fault.List{at.Fault(fmt.Sprintf("names no network for the connection point %s, which the Heat templates connect; add it to the extCps of a link", part[1]))})
		}
	}
}

// checkUserData: Tacker uses the base HOT only for a request that names a UserData class.
func (r *Request) checkUserData(p *Package, t *templates) error {
	if r.Kind != Tacker {
		return nil
	}
	const fileKey, classKey = "lcm-operation-user-data", "lcm-operation-user-data-class"
	at := fault.Root.Key("additionalParams")
	var given map[string]any
	_ = json.Unmarshal(r.Spec.AdditionalParams, &given) // it was read before
	file, _ := given[fileKey].(string)
	class, _ := given[classKey].(string)
	if file == "" && class == "" {
		message := "names no UserData class (" + fileKey + ", " + classKey + "), and without one Tacker's v1 API does not use the base HOT"
		if t.v2() {
			message = "names no UserData class (" + fileKey + ", " + classKey + "), and without one Tacker's v2 API passes Heat no other parameter than nfv"
		}
		r.warn(r.name, fault.List{at.Fault(message)})
		return nil
	}
	if file == "" || class == "" {
		r.refuse(r.name, fault.List{at.Fault("has one of " + fileKey + " and " + classKey + "; Tacker wants both")})
		return nil
	}
	full := strings.TrimLeft(file, "./") // as Tacker does
	content, size, err := p.Content(full)
	if err != nil {
		r.refuse(r.name, fault.List{at.Key(fileKey).Fault(full + " is not in the package; put it there, or correct the path")})
		return nil
	}
	defer content.Close()
	text, err := io.ReadAll(io.LimitReader(content, min(size, maxTemplate)))
	if err != nil {
		return fmt.Errorf("reading %s of the package: %w", full, err)
	}
	if !strings.Contains(string(text), class) {
		r.refuse(r.name, fault.List{at.Key(classKey).Fault(fmt.Sprintf("%s has no class %q", full, class))})
	}
	return nil
}
