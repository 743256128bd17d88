// Package document reads node configurations, from the controller and from a
// file: strictly, and with every value checked again that reaches a file or a
// command of this machine, whatever its sender has checked.
package document

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict"
)

// Decode reads a configuration, JSON or YAML. The error is a fault.List with
// everything that is wrong; a field that this agent does not know is wrong, for
// it asks for something that the agent would not do.
func Decode(content []byte) (*api.NodeConfig, error) {
	var doc api.NodeConfig
	if err := strict.Unmarshal(content, &doc); err != nil {
		return nil, err
	}
	if err := check(&doc).Err(); err != nil {
		return nil, err
	}
	return &doc, nil
}

// checker collects the faults of a document.
type checker struct{ faults fault.List }

func (c *checker) say(at fault.At, message string) { c.faults = append(c.faults, at.Fault(message)) }

// must says what is wrong with one value.
func (c *checker) must(at fault.At, err error) {
	if err != nil {
		c.say(at, err.Error())
	}
}

func check(doc *api.NodeConfig) fault.List {
	c := &checker{}
	if doc.APIVersion != api.NodeConfigV1 {
		c.say(fault.Root.Key("apiVersion"), "this agent understands "+string(api.NodeConfigV1)+" and nothing else")
	}
	if !doc.Role.Valid() {
		c.say(fault.Root.Key("role"), "expected storage, master, worker or registry")
	}
	if doc.Proxy != nil {
		c.proxy(doc.Proxy, fault.Root.Key("proxy"))
	}
	if doc.Storage != nil {
		c.storage(doc.Storage, fault.Root.Key("storage"))
	}
	if doc.Registry != nil {
		c.registry(doc.Registry, fault.Root.Key("registry"))
	}
	c.registries(doc.Registries, fault.Root.Key("registries"))
	if doc.PersistentVolumes != nil {
		c.persistentVolumes(doc.PersistentVolumes, fault.Root.Key("persistentVolumes"))
	}
	if doc.Cluster != nil {
		c.cluster(doc.Cluster, doc.Role, fault.Root.Key("cluster"))
	}
	if doc.Kubernetes != nil {
		c.kubernetes(doc.Kubernetes, doc.Role, fault.Root.Key("kubernetes"))
	}
	if doc.ControlPlane != nil {
		c.controlPlane(doc.ControlPlane, doc.Role, fault.Root.Key("controlPlane"))
	}
	if doc.PodNetwork != nil {
		c.podNetwork(doc.PodNetwork, doc.Role, fault.Root.Key("podNetwork"))
	}
	if doc.ClusterMembers != nil {
		c.clusterMembers(doc.ClusterMembers, fault.Root.Key("clusterMembers"))
	}
	if doc.ClusterDepartures != nil {
		c.servers(doc.ClusterDepartures.Members, fault.Root.Key("clusterDepartures").Key("members"))
	}
	if doc.ClusterDrains != nil {
		c.servers(doc.ClusterDrains.Members, fault.Root.Key("clusterDrains").Key("members"))
	}
	if doc.ClusterAccess != nil {
		c.clusterAccess(doc.ClusterAccess, fault.Root.Key("clusterAccess"))
	}
	return c.faults
}

func (c *checker) proxy(p *api.ProxySection, at fault.At) {
	for name, value := range map[string]string{"http": p.HTTP, "https": p.HTTPS, "noProxy": p.NoProxy} {
		if strings.ContainsFunc(value, control) {
			c.say(at.Key(name), "holds a control character") // and maybe a password, so not repeated
		}
	}
}

func (c *checker) storage(s *api.StorageSection, at fault.At) {
	for i, v := range s.Volumes {
		here := at.Key("volumes").Index(i)
		c.volume(v, here)
		for _, other := range s.Volumes[:i] {
			if strings.EqualFold(other.VolumeID, v.VolumeID) {
				c.say(here.Key("volumeId"), "is given twice")
			}
			if grammar.Under(other.MountPath, v.MountPath) || grammar.Under(v.MountPath, other.MountPath) {
				c.say(here.Key("mountPath"), "is at, above or below "+grammar.Show(other.MountPath)+", where another volume is mounted")
			}
		}
	}
	for i, e := range s.Exports {
		c.export(e, s.Volumes, at.Key("exports").Index(i))
	}
}

func (c *checker) volume(v api.StorageVolume, at fault.At) {
	c.uuid(at.Key("volumeId"), v.VolumeID)
	c.uuid(at.Key("filesystemUuid"), v.FilesystemUUID)
	_, err := grammar.MountPath(v.MountPath)
	c.must(at.Key("mountPath"), err)
	if v.Filesystem != api.Ext4 {
		c.say(at.Key("filesystem"), "expected ext4, the only one that is made")
	}
	if v.SizeBytes < 0 {
		c.say(at.Key("sizeBytes"), "is negative; expected the size in bytes, or 0 if it is not checked")
	}
}

func (c *checker) export(e api.StorageExport, volumes []api.StorageVolume, at fault.At) {
	_, err := grammar.AbsolutePath(e.Directory)
	c.must(at.Key("directory"), err)
	on := func(v api.StorageVolume) bool { return grammar.Under(e.Directory, v.MountPath) }
	if err == nil && !slices.ContainsFunc(volumes, on) {
		c.say(at.Key("directory"), "is on none of the volumes; the root disk is never exported")
	}
	_, err = grammar.ExportClient(e.Client)
	c.must(at.Key("client"), err)
	for i, err := range grammar.ExportOptions(e.Options) {
		c.must(at.Key("options").Index(i), err)
	}
}

func (c *checker) uuid(at fault.At, s string) {
	id, err := uuid.Parse(s)
	if err != nil || id.String() != s {
		c.say(at, "expected a UUID in lower case, such as 6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f")
	}
}
