package params

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// maxNetworkObjects is how many objects a Pod network may have. Calico's has fewer than 50.
const maxNetworkObjects = 200

// Object is one object of a manifest, of any kind.
type Object struct {
	APIVersion, Kind string
	// Namespace is empty where the manifest names none.
	Namespace, Name string
	// JSON is the whole object.
	JSON json.RawMessage
}

var (
	apiVersion = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?v[a-z0-9]+$`)
	objectKind = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
)

// ReadPodNetwork reads the objects of a Pod network: one or several YAML documents (or JSON),
// each an object with apiVersion, kind and metadata.name, or a List of them. The error is a
// fault.List with pointers into the object; where there are several objects, the message says
// which.
func ReadPodNetwork(data []byte) ([]Object, error) {
	found, err := manifestObjects(data)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fault.List{fault.Root.Fault("holds no object; expected those of a Pod network, such as a DaemonSet and its ConfigMap")}
	case len(found) > maxNetworkObjects:
		return nil, fault.List{fault.Root.Fault(fmt.Sprintf("holds %d objects; at most %d are taken", len(found), maxNetworkObjects))}
	}
	var (
		objects []Object
		faults  fault.List
		first   = newFirsts()
	)
	for i, each := range found {
		r := &reader{}
		object := r.anyObject(each)
		group, _, _ := strings.Cut(object.APIVersion, "/")
		if earlier, again := first.seen(identity(group, object), i); again {
			r.fault(fault.Root, "is the %s %s that object %d is already; leave one out", object.Kind, grammar.Show(object.Name), earlier+1)
		}
		faults = append(faults, ofObject(r.faults.sorted(nil, fault.Root), i, len(found))...)
		objects = append(objects, object)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return objects, nil
}

// identity is what no other object of a cluster has, empty for one that was refused.
func identity(group string, o Object) string {
	if o.Kind == "" || o.Name == "" {
		return ""
	}
	return strings.Join([]string{group, o.Kind, o.Namespace, o.Name}, "\n")
}

func (r *reader) anyObject(found manifestObject) Object {
	o := r.object(found)
	if o == nil {
		return Object{}
	}
	object := Object{APIVersion: text(o, "apiVersion", required, anAPIVersion), Kind: text(o, "kind", required, aKind), JSON: found.text}
	metadata := o.object("metadata", required)
	object.Name = text(metadata, "name", required, objectName)
	object.Namespace = text(metadata, "namespace", optional, grammar.ObjectName)
	return object
}

func anAPIVersion(s string) (string, error) {
	if len(s) > 253 || !apiVersion.MatchString(s) {
		return "", fmt.Errorf("is %s; expected a version of an API, such as v1 or apps/v1", grammar.Show(s))
	}
	return s, nil
}

func aKind(s string) (string, error) {
	if !objectKind.MatchString(s) {
		return "", fmt.Errorf("is %s; expected a kind, such as DaemonSet", grammar.Show(s))
	}
	return s, nil
}

// objectName accepts what may stand in the path of a request. Some kinds, such as ClusterRole,
// take more than grammar.ObjectName.
func objectName(s string) (string, error) {
	if len(s) > 253 || s == "." || s == ".." || strings.ContainsAny(s, "/%") {
		return "", errors.New("is not the name of an object: expected at most 253 bytes without / and %")
	}
	return grammar.Opaque(s)
}

func (c *fileCheck) podNetwork(data []byte) {
	if _, err := ReadPodNetwork(data); err != nil {
		c.faults(err)
	}
}
