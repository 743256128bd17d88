package registryserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

// The engine pulls through its own proxy. It gets the document's proxy only if an image has to
// be pulled and it runs no other container, because this needs a restart.
const (
	proxyDropIn = "/etc/systemd/system/docker.service.d/nodehitch-proxy.conf"
	// proxyFile may contain a password, and everyone can read unit files.
	proxyFile = "/etc/nodehitch/docker-proxy.env"
	header    = "# Written by nodehitch-agent, which repairs it: changes made here are lost.\n"
	// The minus sign: the engine starts even without the file.
	proxyUnit = header + "[Service]\nEnvironmentFile=-" + proxyFile + "\n"
)

// proxyContent is an environment file of systemd.
func (p *plan) proxyContent() string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`)
	var b strings.Builder
	b.WriteString(header)
	for _, v := range []struct{ name, value string }{{"HTTP_PROXY", p.proxy.HTTP}, {"HTTPS_PROXY", p.proxy.HTTPS}, {"NO_PROXY", p.proxy.NoProxy}} {
		if v.value != "" {
			fmt.Fprintf(&b, "%s=\"%s\"\n", v.name, quote.Replace(v.value))
		}
	}
	return b.String()
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// useProxy restarts the engine with the proxy. It does nothing if the engine has the proxy or
// the agent must not restart it; the pull is tried anyway. The inventory is written last: after
// a crash before that, the next pass restarts the engine again.
func (p *plan) useProxy(ctx context.Context) error {
	content := p.proxyContent()
	have, err := p.owned()
	if err != nil || have.Proxy == digest(content) {
		return err
	}
	if why, err := p.notRestarted(ctx); why != "" || err != nil {
		return err
	}
	if err := p.writeProxy(content); err != nil {
		return err
	}
	if err := p.Host.Units.Reload(ctx); err != nil {
		return err
	}
	if err := p.restartEngine(ctx); err != nil {
		return err
	}
	return p.own(func(o *owned) { o.Proxy = digest(content) })
}

// pending is in the inventory while the engine does not run with the proxy in the file.
const pending = "pending"

func (p *plan) writeProxy(content string) error {
	if err := p.own(func(o *owned) { o.Proxy = pending }); err != nil {
		return err
	}
	return errors.Join(p.Host.Files.Write(proxyFile, []byte(content), 0o600), p.Host.Files.Write(proxyDropIn, []byte(proxyUnit), 0o644))
}

// notRestarted says why the engine is not restarted for the proxy, "" if it may be.
func (p *plan) notRestarted(ctx context.Context) (why string, err error) {
	containers, err := p.Host.Engine.Containers(ctx)
	if err != nil {
		return "", engineProblem(err)
	}
	if others := runningOthers(containers); len(others) > 0 {
		return "this needs a restart, and the engine runs " + strings.Join(others, ", "), nil
	}
	if unit, err := p.Host.Units.Unit(ctx, dockerService); err != nil || unit.Loaded != "loaded" {
		return "the engine does not run as " + dockerService, nil //nolint:nilerr // without systemd, something else runs it
	}
	return "", nil
}

// runningOthers are the names of the running containers that are not ours.
func runningOthers(containers []host.Container) (names []string) {
	for _, c := range containers {
		if runs(&c) && !ours(&c) {
			names = append(names, c.Name)
		}
	}
	return names
}

// keepProxy plans to update what useProxy wrote when the document changes, and to remove it
// when there is no longer a proxy. It does not restart the engine: the change takes effect at
// the engine's next start, or before the next pull.
func (p *plan) keepProxy(have *owned) error {
	if have.Proxy == "" {
		return nil
	}
	if p.proxy.HTTP == "" && p.proxy.HTTPS == "" {
		p.do("remove the proxy from "+dockerService, func(ctx context.Context) error {
			if err := errors.Join(p.Host.Files.Remove(proxyDropIn), p.Host.Files.Remove(proxyFile), p.Host.Units.Reload(ctx)); err != nil {
				return err
			}
			return p.own(func(o *owned) { o.Proxy = "" })
		})
		return nil
	}
	content := p.proxyContent()
	same, err := p.Host.Files.Same(proxyFile, []byte(content), 0o600)
	if err == nil && !same {
		p.do("write "+proxyFile, func(context.Context) error { return p.writeProxy(content) })
	}
	return err
}

// withoutSecrets removes the proxy's password from a message of the engine.
func (p *plan) withoutSecrets(message string) string {
	for _, secret := range p.proxy.Secrets() {
		message = strings.ReplaceAll(message, secret, "***")
	}
	return message
}

// proxyHint says why the engine does not use the proxy of the document.
func (p *plan) proxyHint(ctx context.Context) string {
	if p.proxy.HTTP == "" && p.proxy.HTTPS == "" {
		return "; let the node reach the registry that the name has, or configure a proxy"
	}
	why, err := p.notRestarted(ctx)
	if err != nil || why == "" {
		return ""
	}
	return "; the engine does not use the configured proxy, because " + why + ": give it the proxy and restart it"
}
