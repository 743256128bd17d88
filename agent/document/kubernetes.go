package document

import (
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// kubernetes checks what reaches kubeadm's configuration.
func (c *checker) kubernetes(s *api.KubernetesSection, role api.Role, at fault.At) {
	c.member(role, at)
	_, err := grammar.KubernetesVersion(s.Version)
	c.must(at.Key("version"), err)
	if s.ImageRepository != "" {
		_, err := grammar.ImageRepository(s.ImageRepository)
		c.must(at.Key("imageRepository"), err)
	}
	if s.KubeadmConfig != nil {
		c.master(role, at.Key("kubeadmConfig"))
		c.file(s.KubeadmConfig, at.Key("kubeadmConfig"))
	}
	for i := range s.ProgramArchives {
		c.file(&s.ProgramArchives[i], at.Key("programArchives").Index(i))
	}
	for i := range s.ImageArchives {
		c.file(&s.ImageArchives[i], at.Key("imageArchives").Index(i))
	}
}

func (c *checker) controlPlane(s *api.ControlPlaneSection, role api.Role, at fault.At) {
	c.master(role, at)
	if s.SharedAddress != "" {
		c.address(at.Key("sharedAddress"), s.SharedAddress)
	}
}

func (c *checker) podNetwork(s *api.PodNetworkSection, role api.Role, at fault.At) {
	c.master(role, at)
	if s.Manifest != nil {
		c.file(s.Manifest, at.Key("manifest"))
	}
}

// master says that what stands there is not for this role.
func (c *checker) master(role api.Role, at fault.At) {
	if role != api.RoleMaster {
		c.say(at, "is for masters alone")
	}
}
