package params

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// PersistentVolume is what has to be known of one object of a manifest.
type PersistentVolume struct {
	// Name is metadata.name, a DNS-1123 subdomain.
	Name string
	// NFSPath is spec.nfs.path, absolute, without a slash at its end.
	NFSPath string
	// Object is the whole object as JSON, with spec.nfs.server as in the manifest.
	Object json.RawMessage
	// advice is what the API server will probably refuse.
	advice []string
}

// ReadManifest reads a manifest: one or several YAML documents (or JSON), each a
// PersistentVolume of apiVersion v1 with a metadata.name and a spec.nfs, or a List of
// them. The error is a fault.List with pointers into the object; where there are
// several objects, the message says which.
func ReadManifest(data []byte) ([]PersistentVolume, error) {
	objects, err := manifestObjects(data)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, fault.List{fault.Root.Fault("holds no object; expected a PersistentVolume")}
	}
	var (
		volumes []PersistentVolume
		faults  fault.List
		names   = newFirsts()
	)
	for i, object := range objects {
		r := &reader{}
		pv := r.persistentVolume(object)
		if first, again := names.seen(pv.Name, i); again {
			r.fault("/metadata/name", "%q is the name of object %d already", pv.Name, first+1)
		}
		faults = append(faults, ofObject(r.faults.sorted(nil, fault.Root), i, len(objects))...)
		volumes = append(volumes, pv)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return volumes, nil
}

// manifestObject is one object of a manifest, or why it cannot be read.
type manifestObject struct {
	node   *jsontree.Node
	text   json.RawMessage
	broken *fault.Fault
}

// manifestObjects are the objects of a file.
func manifestObjects(data []byte) ([]manifestObject, error) {
	documents, err := strict.Documents(data)
	if err != nil {
		return nil, err
	}
	var objects []manifestObject
	for _, document := range documents {
		objects = append(objects, objectsOf(document)...)
	}
	return objects, nil
}

// ofObject adds to each fault the number of the object that it is about, if there are several.
func ofObject(faults fault.List, i, of int) fault.List {
	for j := range faults {
		if of > 1 {
			faults[j].Message += fmt.Sprintf(" (object %d)", i+1)
		}
	}
	return faults
}

// objectsOf are the items of a document that is a List, as kubectl prints several
// objects, else the document itself.
func objectsOf(document json.RawMessage) []manifestObject {
	node, broken := jsontree.Parse(document)
	if broken != nil {
		return []manifestObject{{broken: broken}}
	}
	version, kind, items := node.Get("apiVersion"), node.Get("kind"), node.Get("items")
	isList := version != nil && version.Text == "v1" && kind != nil && kind.Text == "List" && items != nil && items.Kind == jsontree.List
	if !isList {
		return []manifestObject{{node: node, text: document}}
	}
	var objects []manifestObject
	for _, item := range items.Items {
		objects = append(objects, manifestObject{node: item, text: document[item.Start:item.End]})
	}
	return objects
}

// object is one of a manifest; nil if it is none.
func (r *reader) object(found manifestObject) *object {
	if found.broken != nil {
		r.fault(fault.Root, "%s", found.broken.Message)
		return nil
	}
	if found.node.Kind != jsontree.Object {
		r.wrongKind(fault.Root, found.node.Kind, required, jsontree.Object)
		return nil
	}
	return &object{r: r, at: fault.Root, node: found.node}
}

func (r *reader) persistentVolume(found manifestObject) PersistentVolume {
	o := r.object(found)
	if o == nil {
		return PersistentVolume{}
	}
	text(o, "apiVersion", required, exactly("v1"))
	if text(o, "kind", required, exactly("PersistentVolume")) == "" {
		return PersistentVolume{}
	}
	metadata, spec := o.object("metadata", required), o.object("spec", required)
	nfs := spec.object("nfs", required)
	text(nfs, "server", optional, grammar.Opaque)
	return PersistentVolume{
		Name:    text(metadata, "name", required, grammar.ObjectName),
		NFSPath: text(nfs, "path", required, nfsPath),
		Object:  found.text,
		advice:  advice(found.node, spec),
	}
}

// exactly accepts one text.
func exactly(want string) func(string) (string, error) {
	return func(s string) (string, error) {
		if s != want {
			return "", fmt.Errorf("is %s; expected %q, a manifest registers PersistentVolumes only, each as a document of its own or an item of a List",
				grammar.Show(s), want)
		}
		return s, nil
	}
}

func nfsPath(s string) (string, error) {
	if !strings.HasPrefix(s, "/") || slices.Contains(strings.Split(s, "/"), "..") {
		return "", fmt.Errorf("is %s; expected the absolute path of an exported directory", grammar.Show(s))
	}
	return path.Clean(s), nil
}

// advice is what a PersistentVolume has or lacks by the API's own rules. Only a warning:
// they are the API server's to enforce, and defaults may fill in.
func advice(pv *jsontree.Node, spec *object) []string {
	list := notApplied(pv)
	if policy := member(pv, "spec", "persistentVolumeReclaimPolicy"); policy != nil {
		list = append(list, reclaimed(policy.Text)...)
	}
	for _, name := range []string{"capacity", "accessModes"} {
		if spec != nil && spec.node.Get(name) == nil {
			list = append(list, "has no spec."+name+"; the API server refuses it without")
		}
	}
	return list
}

func (c *fileCheck) manifest(data []byte) {
	volumes, err := ReadManifest(data)
	if err != nil {
		c.faults(err)
		return
	}
	for _, pv := range volumes {
		for _, a := range pv.advice {
			c.warn("registers PersistentVolume %q, which %s", pv.Name, a)
		}
		if others := sharing(volumes, pv); others != "" {
			c.warn(shared, pv.Name, pv.NFSPath, others)
		}
		c.checkExported(pv)
	}
}

// shared is the warning about a volume on the directory of others.
const shared = "registers PersistentVolume %q on the directory %s, as %s is: their claims see and overwrite the same files"

// checkExported warns if nothing exports the path of a PersistentVolume.
func (c *fileCheck) checkExported(pv PersistentVolume) {
	if c.params == nil || c.params.Cluster == nil || c.params.Cluster.StorageServer == nil {
		return
	}
	var directories []string
	for _, e := range c.params.Cluster.StorageServer.Exports {
		if e.Directory == pv.NFSPath {
			return
		}
		if e.Directory != "" && !slices.Contains(directories, e.Directory) {
			directories = append(directories, e.Directory)
		}
	}
	c.warn("registers PersistentVolume %q with spec.nfs.path %s, which is no %s of %s: %s",
		pv.Name, grammar.Show(pv.NFSPath), keyExportDir, keyStorage, listed(directories))
}

// Manifest is one manifest file and its PersistentVolumes. Without their paths nothing is said
// of directories.
type Manifest struct {
	Use     FileUse
	Volumes []PersistentVolume
}

// ManifestOf is a manifest of this content. One that cannot be read has no volumes: what is
// wrong with it is CheckFile's.
func ManifestOf(use FileUse, content []byte) Manifest {
	volumes, _ := ReadManifest(content)
	return Manifest{Use: use, Volumes: volumes}
}

// CheckManifests finds PersistentVolumes that two manifests both register, and warns about
// those on the directory of another manifest's.
func CheckManifests(manifests []Manifest) Report {
	r := &reader{}
	names := newFirsts()
	for i, m := range manifests {
		var others []PersistentVolume
		for j, other := range manifests {
			if j != i {
				others = append(others, other.Volumes...)
			}
		}
		for _, pv := range m.Volumes {
			if first, again := names.seen(pv.Name, i); again {
				r.fault(fault.At(m.Use.Pointer), "%s registers PersistentVolume %q, as %s does already; give each a name of its own",
					m.Use.Path, pv.Name, manifests[first].Use.Path)
			}
			if on := sharing(others, pv); on != "" && pv.NFSPath != "" {
				r.warn(fault.At(m.Use.Pointer), "%s "+shared, m.Use.Path, pv.Name, pv.NFSPath, on)
			}
		}
	}
	return r.report(nil, fault.Root)
}
