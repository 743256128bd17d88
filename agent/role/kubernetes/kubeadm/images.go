package kubeadm

import (
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// images plans that containerd gets the images of each archive, once: the archive is not kept. An
// image that is gone again is imported again only until the machine is a member. Then kubelet
// removes what no Pod uses when the disk fills, and the agent does not work against it.
func (p *preparation) images(ctx context.Context) error {
	if len(p.section.ImageArchives) == 0 {
		return nil
	}
	o, err := p.owned()
	if err != nil {
		return err
	}
	begun, err := p.begun(o)
	if err != nil {
		return err
	}
	var has []string
	if !begun {
		if has, err = p.Host.Images.Names(ctx); err != nil {
			return imageProblem("the images that containerd has cannot be listed", err)
		}
	}
	planned := len(p.actions)
	for _, ref := range p.section.ImageArchives {
		names, imported := o.Images[ref.Sha256]
		if imported && (begun || len(without(names, has)) == 0) {
			continue
		}
		p.fetch("the archive of images", ref)
		p.do("import the archive of images into containerd", func(ctx context.Context) error { return p.importImages(ctx, ref) })
	}
	if begun || len(p.actions) > planned {
		return nil
	}
	return p.pauseImage(ctx, slices.Concat(slices.Collect(maps.Values(o.Images))...), has)
}

// without are those of the names that the others lack.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// importImages imports an archive, unless it is for other machines, and removes its file.
// containerd keeps a layer that it has, also one that a power failure has damaged: if an earlier
// attempt was not on the disk when the agent or the machine ended, its images are removed first,
// with their layers.
func (p *preparation) importImages(ctx context.Context, ref api.FileReference) error {
	var held params.Images
	err := p.read(ref, func(content io.Reader) (err error) {
		held, err = params.ReadImages(content)
		return err
	})
	if err != nil {
		return converge.Wait(api.ReasonImageUnavailable, "the archive of images %.12s cannot be used: %v", ref.Sha256, err)
	}
	if len(held.Architectures) > 0 && !slices.Contains(held.Architectures, runtime.GOARCH) {
		p.Log.Info("an archive of images is passed over: it is for other machines", "sha256", ref.Sha256, "architectures", held.Architectures)
		return p.imported(ref, nil)
	}
	o, err := p.owned()
	if err != nil {
		return err
	}
	if o.Importing == ref.Sha256 {
		if err := p.Host.Images.Remove(ctx, held.Names...); err != nil {
			return imageProblem("what an interrupted import has left cannot be removed", err)
		}
	}
	if err := p.own(func(o *owned) { o.Importing = ref.Sha256 }); err != nil {
		return err
	}
	err = p.read(ref, func(content io.Reader) error {
		plain, err := params.Unpacked(content)
		if err != nil {
			return err
		}
		return p.Host.Images.Import(ctx, plain)
	})
	switch {
	case host.Refusal(err) != nil: // ctr has ended by itself, and what it did is on the disk
		return errors.Join(imageProblem("containerd does not import the archive of images", err), p.own(func(o *owned) { o.Importing = "" }))
	case err != nil:
		return imageProblem("importing the archive of images", err)
	}
	// Only what containerd knows by the same name can be looked for again.
	has, err := p.Host.Images.Names(ctx)
	if err != nil {
		return imageProblem("the images that containerd has cannot be listed", err)
	}
	known := slices.DeleteFunc(held.Names, func(name string) bool { return !slices.Contains(has, name) })
	return p.imported(ref, known)
}

// imported records that an archive was imported, and removes its file.
func (p *preparation) imported(ref api.FileReference, names []string) error {
	err := p.own(func(o *owned) {
		if o.Images == nil {
			o.Images = map[string][]string{}
		}
		o.Images[ref.Sha256], o.Importing = names, ""
	})
	if err != nil {
		return err
	}
	return p.Files.Remove(ref)
}

// imageProblem is an error of ctr's. Its message is the kernel's if a disk is full, and ctr's own
// if containerd does not answer.
func imageProblem(doing string, err error) error {
	var failed *host.CommandError
	if !errors.As(err, &failed) || errors.Is(err, syscall.ENOSPC) {
		return err
	}
	reason, advice := api.ReasonImageUnavailable, ""
	switch said := failed.Output; {
	case strings.Contains(said, "no space left on device"), strings.Contains(said, "disk quota exceeded"):
		reason, advice = api.ReasonNoSpace, "; make room where containerd keeps images, by default /var/lib/containerd"
	case strings.Contains(said, "failed to dial"), strings.Contains(said, "connection refused"):
		reason = api.ReasonEngineNotRunning
	}
	return converge.Wait(reason, "%s: %v%s", doing, failed, advice)
}

// pauseImage says that containerd would pull the image that each Pod begins with, although an
// archive has brought another one: no Pod would start on a machine without a registry.
func (p *preparation) pauseImage(ctx context.Context, brought, has []string) error {
	isPause := func(name string) bool { return strings.HasPrefix(path.Base(name), "pause:") }
	i := slices.IndexFunc(brought, isPause)
	if i < 0 {
		return nil
	}
	c, err := containerdconf.ReadMachine(ctx, p.Host)
	if err != nil {
		return err
	}
	if wanted := c.Config.PauseImage; wanted != "" && !slices.Contains(has, wanted) {
		return converge.Wait(api.ReasonImageUnavailable, "containerd starts each Pod with the image %s, which is not on this machine; the archives have %s: name that in %s (sandbox_image, or sandbox of pinned_images) and restart containerd, or put the other image into an archive",
			wanted, brought[i], c.Path)
	}
	return nil
}
