package registryserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// image is the image for the container. If it has to be loaded or pulled first, image plans
// that and returns nil. Anyone may move a tag, so the id that was found first counts.
func (p *plan) image(ctx context.Context, up bool, have *owned) (*image, error) {
	source := sourceOf(p.section.Image)
	if have.Refused != nil && have.Refused.Source == source {
		return nil, converge.Fail(api.ReasonImageNotFound, "%s", have.Refused.Reason)
	}
	if up {
		found, err := p.known(ctx, source, have)
		if found != nil || err != nil {
			return found, err
		}
	}
	if f := p.section.Image.File; f != nil {
		p.do(fmt.Sprintf("fetch the image file %.12s (%d bytes)", f.Sha256, f.SizeBytes), func(ctx context.Context) error {
			return p.Files.Fetch(ctx, *f)
		})
		p.do("load the image file into the engine", p.load)
		return nil, nil
	}
	if p.proxy.HTTP != "" || p.proxy.HTTPS != "" {
		p.do("configure the engine's proxy, if it runs nothing else", p.useProxy)
	}
	p.do("pull "+p.section.Image.Reference, p.pull)
	return nil, nil
}

// known is the image from this source that is in the engine. It is found by the inventory, by
// the container that was made from it, or by the name to pull.
func (p *plan) known(ctx context.Context, source string, have *owned) (*image, error) {
	candidates := []*image{have.Image}
	c, err := p.Host.Engine.Container(ctx, containerName)
	if err != nil {
		return nil, engineProblem(err)
	}
	if ours(c) {
		candidates = append(candidates, &image{Source: c.Labels[labelSource], ID: c.Image, Name: c.Image})
	}
	for _, i := range candidates {
		if i == nil || i.Source != source {
			continue
		}
		if id, err := p.Host.Engine.Image(ctx, i.ID); id != "" || err != nil {
			return i, engineProblem(err)
		}
	}
	if p.section.Image.File != nil || have.Bringing {
		return nil, nil
	}
	id, err := p.Host.Engine.Image(ctx, source)
	if id == "" || err != nil {
		return nil, engineProblem(err)
	}
	return &image{Source: source, ID: id, Name: source}, nil
}

// load streams the file into the engine. It removes the file as soon as the image is recorded:
// one copy, in the engine, is enough.
func (p *plan) load(ctx context.Context) error {
	ref := *p.section.Image.File
	archive, err := p.Files.Open(ref)
	if err != nil {
		return err
	}
	defer archive.Close()
	names, err := p.bring(ctx, func(ctx context.Context) ([]string, error) {
		if _, err := archive.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		return p.Host.Engine.Load(ctx, archive)
	})
	var refusal *host.EngineError
	if errors.As(err, &refusal) && !noSpace(refusal) {
		return converge.Fail(api.ReasonImageNotFound,
			"the engine does not load the image file %.12s: %s; give one that `docker save registry:latest` of this or an older version of the engine wrote", ref.Sha256, refusal.Message)
	}
	if err != nil {
		return engineProblem(err)
	}
	source := sourceOf(p.section.Image)
	name := choose(names)
	if name == "" {
		why := fmt.Sprintf("the image file %.12s holds %s; expected a tag of the repository registry: give one that `docker save registry:latest` wrote", ref.Sha256, listed(names))
		err := p.own(func(o *owned) { o.Refused, o.Bringing = &refused{Source: source, Reason: why}, false })
		return errors.Join(converge.Fail(api.ReasonImageNotFound, "%s", why), err, p.Files.Remove(ref))
	}
	return errors.Join(p.remember(ctx, source, name), p.Files.Remove(ref))
}

// choose is the name of the registry's image among those in an archive, "" for none.
func choose(names []string) string {
	if slices.Contains(names, "registry:latest") {
		return "registry:latest"
	}
	i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "registry:") })
	if i < 0 {
		return ""
	}
	return names[i]
}

func listed(names []string) string {
	if len(names) == 0 {
		return "no image"
	}
	return strings.Join(names, ", ")
}

// pull makes the engine pull the image from the registry that its name has.
func (p *plan) pull(ctx context.Context) error {
	reference := p.section.Image.Reference
	_, err := p.bring(ctx, func(ctx context.Context) ([]string, error) {
		return []string{reference}, p.Host.Engine.Pull(ctx, reference)
	})
	var refusal *host.EngineError
	if errors.As(err, &refusal) && !noSpace(refusal) {
		return converge.Wait(api.ReasonImageNotFound, "the image %s cannot be pulled: %s%s; or give an image file (image_path)",
			reference, p.withoutSecrets(refusal.Message), p.proxyHint(ctx))
	}
	if err != nil {
		return engineProblem(err)
	}
	return p.remember(ctx, reference, reference)
}

// bring brings images into the engine by a function that returns their names. The engine keeps
// a layer that it has, also one that a power failure has damaged (host.Engine, Sync). So if an
// earlier attempt was not on the disk when the agent or the machine ended, the images are
// removed, which removes their layers, and brought once more.
func (p *plan) bring(ctx context.Context, how func(context.Context) ([]string, error)) ([]string, error) {
	have, err := p.owned()
	if err != nil {
		return nil, err
	}
	if err := p.own(func(o *owned) { o.Bringing = true }); err != nil {
		return nil, err
	}
	names, err := how(ctx)
	var refusal *host.EngineError
	switch {
	case errors.As(err, &refusal) && !have.Bringing: // it has ended, and may be tried for ever
		return nil, errors.Join(err, p.ownOnDisk(ctx, func(o *owned) { o.Bringing = false }))
	case err != nil || !have.Bringing:
		return names, err
	}
	for _, name := range names {
		err := p.Host.Engine.RemoveImage(ctx, name)
		if errors.As(err, &refusal) { // a container has it, so it was there before
			p.Log.Info("an image is kept", "name", name, "because", refusal.Message)
		} else if err != nil {
			return nil, err
		}
	}
	return how(ctx)
}

// remember records the image's id in the inventory.
func (p *plan) remember(ctx context.Context, source, name string) error {
	id, err := p.Host.Engine.Image(ctx, name)
	if err != nil {
		return engineProblem(err)
	}
	if id == "" {
		return converge.Wait(api.ReasonImageNotFound, "the engine has just loaded the image %s and no longer has it; the agent tries again", name)
	}
	p.Log.Info("the image is in the engine", "name", name, "id", id)
	return p.ownOnDisk(ctx, func(o *owned) {
		o.Image, o.Refused, o.Bringing = &image{Source: source, ID: id, Name: name}, nil, false
	})
}
