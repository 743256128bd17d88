package api

// The sections of a NodeConfig: its members that ask something of a node. From the first
// release on a section gets no new member, because an agent refuses a document that has a
// member it does not know: what is new is a section of its own, which is withheld from
// agents that do not understand it.
const (
	SectionProxy             = "proxy"
	SectionStorage           = "storage"
	SectionNFSClient         = "nfsClient"
	SectionRegistry          = "registry"
	SectionRegistries        = "registries"
	SectionPersistentVolumes = "persistentVolumes"
	SectionCluster           = "cluster"
	SectionKubernetes        = "kubernetes"
	SectionControlPlane      = "controlPlane"
	SectionPodNetwork        = "podNetwork"
	SectionClusterMembers    = "clusterMembers"
	SectionClusterDepartures = "clusterDepartures"
	SectionClusterDrains     = "clusterDrains"
	SectionClusterAccess     = "clusterAccess"
)

// section is one of them: whether a document has it, and the conditions that report on it.
type section struct {
	name       string
	in         func(*NodeConfig) bool
	conditions []string
}

// sections are all that this build knows, in the order in which an agent works on them.
var sections = []section{
	{SectionProxy, func(c *NodeConfig) bool { return c.Proxy != nil }, nil},
	{SectionStorage, func(c *NodeConfig) bool { return c.Storage != nil }, []string{ConditionVolumesMounted, ConditionExportsServed}},
	{SectionNFSClient, func(c *NodeConfig) bool { return c.NFSClient != nil }, []string{ConditionNFSClientInstalled}},
	{SectionRegistry, func(c *NodeConfig) bool { return c.Registry != nil }, []string{ConditionRegistryRunning}},
	{SectionRegistries, func(c *NodeConfig) bool { return c.Registries != nil }, []string{ConditionRegistriesConnected}},
	{SectionPersistentVolumes, func(c *NodeConfig) bool { return c.PersistentVolumes != nil }, []string{ConditionPersistentVolumesRegistered}},
	{SectionKubernetes, func(c *NodeConfig) bool { return c.Kubernetes != nil }, []string{ConditionEngineReady, ConditionKubernetesInstalled}},
	{SectionCluster, func(c *NodeConfig) bool { return c.Cluster != nil }, []string{ConditionClusterMember}},
	{SectionControlPlane, func(c *NodeConfig) bool { return c.ControlPlane != nil }, []string{ConditionControlPlaneHealthy}},
	{SectionPodNetwork, func(c *NodeConfig) bool { return c.PodNetwork != nil }, []string{ConditionPodNetworkReady}},
	{SectionClusterMembers, func(c *NodeConfig) bool { return c.ClusterMembers != nil }, []string{ConditionClusterMembersCurrent}},
	{SectionClusterDepartures, func(c *NodeConfig) bool { return c.ClusterDepartures != nil }, []string{ConditionClusterMembersLeft}},
	{SectionClusterDrains, func(c *NodeConfig) bool { return c.ClusterDrains != nil }, []string{ConditionClusterMembersDrained}},
	{SectionClusterAccess, func(c *NodeConfig) bool { return c.ClusterAccess != nil }, []string{ConditionClusterAccessReady}},
}

// firstSections are those of the first release: what an agent understands that does not
// say what it does. They never change after it.
var firstSections = []string{
	SectionProxy, SectionStorage, SectionNFSClient, SectionRegistry, SectionRegistries, SectionPersistentVolumes,
}

// Sections are the names of all sections that this build knows.
func Sections() []string {
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	return names
}

// ConditionsOf are the condition types that a section calls for.
func ConditionsOf(name string) []string {
	for _, s := range sections {
		if s.name == name {
			return s.conditions
		}
	}
	return nil
}

// ConditionTypes are the condition types that any section calls for, in the order in which
// an agent works on them.
func ConditionTypes() []string {
	var types []string
	for _, s := range sections {
		types = append(types, s.conditions...)
	}
	return types
}

// Sections are the names of the sections that the document has.
func (c *NodeConfig) Sections() []string {
	var names []string
	for _, s := range sections {
		if s.in(c) {
			names = append(names, s.name)
		}
	}
	return names
}

// ConditionTypes are the condition types that the sections of the document call for, in
// the order in which an agent works on them. A section that is missing calls for none; an
// empty one for the same as a full one. A node is Ready only when it reports each of them
// as True.
func (c *NodeConfig) ConditionTypes() []string {
	var types []string
	for _, s := range sections {
		if s.in(c) {
			types = append(types, s.conditions...)
		}
	}
	return types
}
