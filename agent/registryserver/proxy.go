package registryserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A pull goes by the engine's own proxy. The engine is told of ours only where an image
// has to be pulled and nothing but our registry runs in it, for it has to be restarted.
const (
	proxyDropIn = "/etc/systemd/system/docker.service.d/nodehitch.conf"
	// proxyFile may hold a password, and unit files are for all to read.
	proxyFile = "/etc/nodehitch/docker-proxy.env"
	header    = "# Written by nodehitch-agent, which repairs it: changes made here are lost.\n"
	// The minus sign: without the file the engine starts all the same.
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

// useProxy restarts the engine with the proxy, unless it has it or others would
// notice. The inventory is written last: a crash before that restarts it again.
func (p *plan) useProxy(ctx context.Context) error {
	content := p.proxyContent()
	have, err := p.owned()
	if err != nil || have.Proxy == digest(content) {
		return err
	}
	others, err := p.others(ctx)
	if err != nil || len(others) > 0 {
		return err // the pull is tried all the same, and says so where it fails
	}
	if err := p.own(func(o *owned) { o.Proxy = "pending" }); err != nil {
		return err
	}
	if err := errors.Join(p.Host.Files.Write(proxyFile, []byte(content), 0o600), p.Host.Files.Write(proxyDropIn, []byte(proxyUnit), 0o644)); err != nil {
		return err
	}
	if err := p.Host.Units.Reload(ctx); err != nil {
		return err
	}
	if err := p.Host.Units.Restart(ctx, dockerService); err != nil {
		return converge.Wait(api.ReasonEngineNotRunning, "%v", err)
	}
	return p.own(func(o *owned) { o.Proxy = digest(content) })
}

// others are the containers that run and are not ours.
func (p *plan) others(ctx context.Context) ([]string, error) {
	names, err := p.Host.Engine.Running(ctx)
	if err != nil {
		return nil, engineProblem(err)
	}
	c, err := p.Host.Engine.Container(ctx, containerName)
	if err != nil {
		return nil, engineProblem(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == containerName && ours(c) }), nil
}

// forgetProxy plans to take away what useProxy wrote, when the document has no proxy
// any more. The engine has it until it is next started, which is nobody's harm.
func (p *plan) forgetProxy(have *owned) error {
	if have.Proxy == "" || p.proxy.HTTP != "" || p.proxy.HTTPS != "" {
		return nil
	}
	p.do("take the proxy away from "+dockerService, func(ctx context.Context) error {
		if err := errors.Join(p.Host.Files.Remove(proxyDropIn), p.Host.Files.Remove(proxyFile), p.Host.Units.Reload(ctx)); err != nil {
			return err
		}
		return p.own(func(o *owned) { o.Proxy = "" })
	})
	return nil
}

// withoutSecrets keeps what the engine says of a proxy from carrying its password.
func (p *plan) withoutSecrets(words string) string {
	for _, secret := range p.proxy.Secrets() {
		words = strings.ReplaceAll(words, secret, "***")
	}
	return words
}

// proxyHint says why the engine does not use the proxy of the document.
func (p *plan) proxyHint(ctx context.Context) string {
	if p.proxy.HTTP == "" && p.proxy.HTTPS == "" {
		return "; let the node reach the registry that the name says, or give a proxy"
	}
	others, err := p.others(ctx)
	if err != nil || len(others) == 0 {
		return ""
	}
	return "; the engine was not given the proxy of the configuration, for it would have to be restarted and runs " + strings.Join(others, ", ") +
		": set it in " + dockerService + " and restart that"
}
