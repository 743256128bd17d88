package lab

import (
	"context"
	"path/filepath"
	"strings"
)

// engineState is what container engines keep; overlay2 works only on a file system
// that is not an overlay itself, so these folders are the host's.
var engineState = map[string]string{
	"docker":     "/var/lib/docker",
	"containerd": "/var/lib/containerd",
}

// BuildEngines is BuildImages for machines with Spec.Engine.
func (l *Lab) BuildEngines(ctx context.Context) error {
	s, err := System("").OrDefault()
	if err == nil {
		_, err = l.cache.EngineInstalled(ctx, s)
	}
	return err
}

// layers are the folders below the node's own, as overlay's option lowerdir has them.
func (l *Lab) layers(ctx context.Context, s Spec) (string, error) {
	var folders []string
	var err error
	switch {
	case s.Kubelet != nil:
		folders, err = l.kubeletLayers(ctx, s)
	case s.Engine == NoEngine:
		if !s.NFSClient {
			return l.cache.Nspawn(ctx, s.System)
		}
		folders, err = l.cache.NFSClient(ctx, s.System)
	case s.Engine == EngineOffered:
		folders, err = l.cache.EngineOffered(ctx, s.System)
	case s.Engine == EngineInstalled:
		folders, err = l.cache.EngineInstalled(ctx, s.System)
	}
	return strings.Join(folders, ":"), err
}

// engineFolders are the host's folders for engineState.
func (n *nspawn) engineFolders() []string {
	if n.spec.Engine == NoEngine {
		return nil
	}
	var folders []string
	for name := range engineState {
		folders = append(folders, filepath.Join(n.dir, name))
	}
	return folders
}

// engineArguments are what systemd-nspawn has to allow, beyond what systemd
// needs, so that runc can do its work inside.
func (n *nspawn) engineArguments() []string {
	if n.spec.Engine == NoEngine {
		return nil
	}
	argv := []string{"--system-call-filter=add_key keyctl bpf"}
	for name, path := range engineState {
		argv = append(argv, "--bind="+filepath.Join(n.dir, name)+":"+path)
	}
	return argv
}
