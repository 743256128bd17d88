package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// KubernetesVersions are the versions of the programs on the machine, such as "1.34.4"; "" for
// one that is not installed.
type KubernetesVersions struct{ Kubeadm, Kubelet string }

// KubeadmConfig is a configuration of kubeadm's.
type KubeadmConfig struct {
	// Documents are kubeadm's own, in YAML. They contain secrets.
	Documents []byte
	// Secrets are those in the documents. They are removed from what kubeadm prints.
	Secrets []string
}

// Kubeadm makes this machine a member of a Kubernetes cluster. Its configuration is in a file
// in memory only while it runs. What kubeadm says of a failure is in the *CommandError.
type Kubeadm interface {
	// Versions asks kubeadm and kubelet.
	Versions(ctx context.Context) (KubernetesVersions, error)
	// Validate checks a configuration, and changes nothing.
	Validate(ctx context.Context, c KubeadmConfig) error
	// Preflight checks whether this machine can be a master, and pulls the images that it lacks.
	Preflight(ctx context.Context, c KubeadmConfig) error
	// Init makes a cluster whose first master is this machine.
	Init(ctx context.Context, c KubeadmConfig) error
	// Join makes this machine a member of a cluster.
	Join(ctx context.Context, c KubeadmConfig) error
	// RestoreEtcd writes the manifest of this master's etcd, which has its data, anew.
	RestoreEtcd(ctx context.Context, c KubeadmConfig) error
	// UploadCertificates gives the certificates of the control plane, encrypted, to masters that
	// join, for two hours.
	UploadCertificates(ctx context.Context, c KubeadmConfig) error
	// UpgradeApply upgrades the cluster's configuration and this master to a version, which is
	// kubeadm's own. ignored are checks whose errors do not count.
	UpgradeApply(ctx context.Context, version string, ignored []string) error
	// UpgradeNode upgrades this machine to the version of the cluster's configuration.
	UpgradeNode(ctx context.Context, ignored []string) error
	// RenewCertificates renews the certificates of this machine's control plane whose authorities
	// have their keys here. It reads its configuration from the cluster, if that answers.
	RenewCertificates(ctx context.Context) error
	// Sync puts on the disk what kubeadm and kubelet have written. They do not: a power failure
	// leaves files without content.
	Sync() error
}

// kubernetesDirectories are where kubeadm writes.
var kubernetesDirectories = []string{"/etc/kubernetes", "/var/lib/kubelet"}

type kubeadm struct {
	run        *Runner
	directory  string
	etcdCopies string

	kubeadmVersion, kubeletVersion answer
}

func (k *kubeadm) Versions(ctx context.Context) (v KubernetesVersions, err error) {
	if v.Kubeadm, err = k.version(ctx, &k.kubeadmVersion, kubeadmVersionCommand()); err != nil {
		return v, err
	}
	v.Kubelet, err = k.version(ctx, &k.kubeletVersion, kubeletVersionCommand())
	return v, err
}

// version is "" if the program is not installed.
func (k *kubeadm) version(ctx context.Context, last *answer, c Command) (string, error) {
	text, err := last.get(c.Argv[0], "", func() (string, bool, error) {
		said, err := k.run.Run(ctx, c)
		if err != nil {
			return "", false, err
		}
		text, err := parseKubernetesVersion(said.Stdout)
		if err != nil {
			return "", false, fmt.Errorf("%s %w", c.Argv[0], err)
		}
		return text, true, nil
	})
	if errors.Is(err, errNotInstalled) {
		return "", nil
	}
	return text, err
}

// parseKubernetesVersion reads "v1.34.4", "Kubernetes v1.34.4" and what distributions append
// after a plus sign.
func parseKubernetesVersion(printed string) (string, error) {
	fields := strings.Fields(printed)
	if len(fields) > 0 {
		text, _, _ := strings.Cut(fields[len(fields)-1], "+")
		if after, ok := strings.CutPrefix(text, "v"); ok {
			return after, nil
		}
	}
	return "", fmt.Errorf("prints %.100q, which is no version", printed)
}

func (k *kubeadm) Validate(ctx context.Context, c KubeadmConfig) error {
	return k.with(ctx, c, kubeadmValidateCommand)
}

func (k *kubeadm) Preflight(ctx context.Context, c KubeadmConfig) error {
	return k.with(ctx, c, kubeadmPreflightCommand)
}

func (k *kubeadm) Init(ctx context.Context, c KubeadmConfig) error {
	return k.with(ctx, c, kubeadmInitCommand)
}

func (k *kubeadm) Join(ctx context.Context, c KubeadmConfig) error {
	return k.with(ctx, c, kubeadmJoinCommand)
}

func (k *kubeadm) RestoreEtcd(ctx context.Context, c KubeadmConfig) error {
	return k.with(ctx, c, kubeadmEtcdCommand)
}

func (k *kubeadm) UploadCertificates(ctx context.Context, c KubeadmConfig) error {
	return k.with(ctx, c, kubeadmUploadCommand)
}

func (k *kubeadm) UpgradeApply(ctx context.Context, version string, ignored []string) error {
	return k.upgrade(ctx, kubeadmApplyCommand(version, ignored))
}

func (k *kubeadm) UpgradeNode(ctx context.Context, ignored []string) error {
	return k.upgrade(ctx, kubeadmNodeCommand(ignored))
}

// upgrade removes all copies of etcd's data but the last one first: each run makes one and keeps
// it, so upgrades that fail and are tried again would fill the disk on which etcd writes.
func (k *kubeadm) upgrade(ctx context.Context, c Command) error {
	copies, err := filepath.Glob(k.etcdCopies)
	if err != nil {
		return err
	}
	for _, old := range copies[:max(0, len(copies)-1)] {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	_, err = k.run.Run(ctx, c)
	return err
}

func (k *kubeadm) RenewCertificates(ctx context.Context) error {
	_, err := k.run.Run(ctx, kubeadmRenewCommand())
	return err
}

func (k *kubeadm) Sync() error {
	var errs []error
	for _, directory := range kubernetesDirectories {
		errs = append(errs, syncFilesystem(directory))
	}
	return errors.Join(errs...)
}

// with runs a command with the configuration in a file that only root reads. A file that a
// killed agent has left is replaced, and removed.
func (k *kubeadm) with(ctx context.Context, c KubeadmConfig, command func(file string) Command) (err error) {
	if err := os.RemoveAll(k.directory); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(k.directory), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(k.directory, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(k.directory)) }()
	file := filepath.Join(k.directory, "config.yaml")
	if err := os.WriteFile(file, c.Documents, 0o600); err != nil {
		return err
	}
	run := command(file)
	run.Secrets = c.Secrets
	_, err = k.run.Run(ctx, run)
	return err
}
