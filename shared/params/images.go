package params

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// Images is what an archive of container images says about them.
type Images struct {
	// Names are those by which containerd knows the images, in the order of the archive. There
	// is at least one.
	Names []string
	// Architectures are as in Image.
	Architectures []string
}

// ReadImages reads an archive as `docker save` or `ctr images export` writes it (a tar, plain or
// by gzip) to its end, in bounded memory. Its errors are those of ReadImage.
func ReadImages(content io.Reader) (Images, error) {
	src := &source{reader: content}
	index, err := scanImage(src)
	var images Images
	if err == nil {
		images, err = index.named()
	}
	if err != nil {
		return Images{}, src.fault(err)
	}
	return images, nil
}

// named are the images as containerd takes them: of an OCI layout if there is one, else those of
// manifest.json.
func (i *indexes) named() (found Images, err error) {
	var all []savedImage
	switch {
	case i.hasOCI && i.contents.lacks("oci-layout") == "":
		all = i.ofOCI()
	case i.hasDocker:
		all = i.ofDocker()
	case i.hasOCI:
		return found, errors.New("has index.json and lacks oci-layout, so it is no OCI layout; save the images again")
	default:
		return found, errors.New("is a tar archive without manifest.json or index.json; expected the file that `docker save` or `ctr images export` writes")
	}
	var unnamed []string
	for _, one := range all {
		architecture, missing := one.content(&i.contents)
		if architecture != "" && !slices.Contains(found.Architectures, architecture) {
			found.Architectures = append(found.Architectures, architecture)
		}
		for _, tag := range one.tags {
			name, err := reference.ParseDockerRef(tag)
			if err != nil || !strings.ContainsAny(tag, "/:@") { // containerd takes a bare tag for no name
				unnamed = append(unnamed, tag)
				continue
			}
			if missing != "" {
				return found, fmt.Errorf("lacks %s, which is part of %s; save the images again", grammar.Show(missing), grammar.Show(tag))
			}
			if !slices.Contains(found.Names, name.String()) {
				found.Names = append(found.Names, name.String())
			}
		}
	}
	if len(found.Names) == 0 {
		return found, fmt.Errorf("holds no image with a whole name, such as registry.k8s.io/pause:3.10.1 (found: %s); save the images by their names", listed(unnamed))
	}
	return found, nil
}

func (c *fileCheck) images(content io.Reader) {
	images, err := ReadImages(content)
	if err != nil {
		c.faults(err)
		return
	}
	c.r.holds = images.Names
	c.isFor(images.Architectures, "images")
}

// defaultRepository is kubeadm's.
const defaultRepository = "registry.k8s.io"

// Held is one use of an archive, and what it holds.
type Held struct {
	Use   FileUse
	Holds []string
}

// CheckArchives warns about what a cluster needs and none of the archives holds: it has to be in
// the machines' image, or to be pulled. at is the place of additionalParams.
func CheckArchives(p *Params, at fault.At, held []Held) Report {
	r := &reader{}
	if p == nil || p.Cluster == nil || p.Cluster.Kubernetes == nil {
		return Report{}
	}
	k := p.Cluster.Kubernetes
	at = at.Key(keyCluster).Key(keyKubernetes)
	of := func(use Use) (names []string) {
		for _, h := range held {
			if h.Use.Use == use {
				names = append(names, h.Holds...)
			}
		}
		return names
	}
	if programs := of(UsePrograms); len(programs) > 0 {
		if lacks := without(programs, []string{"kubelet", "kubeadm"}, func(has, want string) bool { return has == want }); len(lacks) > 0 {
			r.warn(at.Key(keyProgramPaths), "no archive has %s; the machines' image has to", strings.Join(lacks, ", "))
		}
	}
	if images := of(UseImages); len(images) > 0 {
		if lacks := without(images, k.images(), func(has, want string) bool {
			return has == want || strings.HasSuffix(want, ":") && strings.HasPrefix(has, want)
		}); len(lacks) > 0 {
			r.warn(at.Key(keyImagePaths), "no archive has %s; the machines' image has to, or the machines pull it", strings.Join(lacks, ", "))
		}
	}
	return r.report(nil, at)
}

// without are those wanted that none of the names matches.
func without(names, wanted []string, matches func(has, want string) bool) []string {
	return slices.DeleteFunc(wanted, func(want string) bool {
		return slices.ContainsFunc(names, func(has string) bool { return matches(has, want) })
	})
}

// images are what kubeadm looks for. Those that have versions of their own end in a colon.
func (k *Kubernetes) images() (names []string) {
	repository, dns := k.ImageRepository, "coredns:"
	if repository == "" || repository == defaultRepository {
		repository, dns = defaultRepository, "coredns/coredns:"
	}
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		names = append(names, path.Join(repository, component)+":v"+k.Version)
	}
	for _, other := range []string{dns, "pause:", "etcd:"} {
		names = append(names, repository+"/"+other)
	}
	return names
}
