package kubeadm

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// kubeadm and kubelet leave it to the kernel when their files get to the disk. A power failure
// within half a minute leaves files without content, which neither of them makes anew. So the agent
// synchronizes them when kubeadm has finished, and until then the unit of kubelet before kubelet starts:
// what follows from kubelet (a Node, a vote in etcd) never outlives what it needs. What is lost in
// between is made anew before kubeadm runs again.

// syncDropIn is the agent's own, beside those of the packages of kubelet.
const (
	syncDropIn     = "/etc/systemd/system/kubelet.service.d/nodehitch.conf"
	syncDropInText = `# Written by nodehitch-agent.
[Service]
# kubeadm does not flush what it has written for kubelet, and a power failure would empty it.
ExecStartPre=-/usr/bin/sync --file-system /etc/kubernetes /var/lib/kubelet
`
)

// syncBeforeKubelet plans that drop-in.
func (p *preparation) syncBeforeKubelet(unit host.Unit) error {
	if p.joined {
		return nil
	}
	same, err := p.Host.Files.Same(syncDropIn, []byte(syncDropInText), publicMode)
	if same && !unit.Stale || err != nil {
		return err
	}
	p.do("write "+syncDropIn, func(ctx context.Context) error {
		return errors.Join(p.Host.Files.Write(syncDropIn, []byte(syncDropInText), publicMode), p.Host.Units.Reload(ctx))
	})
	return nil
}

// syncNoMore removes that drop-in. If a disk is slow to flush what Pods write, it would keep the kubelet
// of a member from starting.
func (m *Machine) syncNoMore(ctx context.Context) error {
	return errors.Join(m.Host.Files.Remove(syncDropIn), m.Host.Units.Reload(ctx))
}

const (
	etcdManifest = directory + "manifests/etcd.yaml"
	// etcdMember is where an etcd has its data, and etcdData are files there once it has started.
	etcdMember = "/var/lib/etcd/member"
	etcdData   = etcdMember + "/wal/*.wal"
)

// isEmpty reports whether a file has no content, or is not there.
func (m *Machine) isEmpty(path string) (bool, error) {
	content, err := m.Host.Files.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && len(content) == 0, err
}

// isLost reports whether one of the files that belong together has no content, or kubeadm was killed
// after it had written a key and not the certificate, which is the first.
func (m *Machine) isLost(files ...string) (bool, error) {
	there := map[string]bool{}
	for _, path := range files {
		is, err := m.exists(path)
		if err != nil {
			return false, err
		}
		empty, err := m.isEmpty(path)
		if err != nil || is && empty {
			return err == nil, err
		}
		there[path] = is
	}
	return !there[files[0]] && there[files[len(files)-1]], nil
}

// pair are a certificate, or a public key, and its key.
func pair(key, extension string) []string {
	return []string{strings.TrimSuffix(key, ".key") + extension, key}
}

// removeLost removes what an unfinished attempt has left and a power failure has emptied. kubeadm and
// kubelet make anew what is missing. If the authority of a cluster that is being made is lost, what it
// has signed goes too: nobody else knows it yet. A machine that joins gets the same authority again.
func (m *Machine) removeLost(what attempt) error {
	var lost []string
	var errs []error
	check := func(files ...string) bool {
		is, err := m.isLost(files...)
		errs = append(errs, err)
		if is {
			lost = append(lost, files...)
		}
		return is
	}
	authorities := map[string]bool{}
	for _, key := range []string{clusterKey, etcdKey, proxyKey} {
		authorities[key] = check(pair(key, ".crt")...) && what == initializing
	}
	of := func(authority string, files ...string) {
		if authorities[authority] {
			lost = append(lost, files...)
			return
		}
		check(files...)
	}
	for _, each := range renewed {
		if name, is := strings.CutSuffix(each.path, ".crt"); is {
			of(each.key, pair(name+".key", ".crt")...)
			continue
		}
		of(each.key, each.path)
	}
	of(clusterKey, KubeletKubeconfig)
	of(clusterKey, kubeletCertificate)
	check(pair(pki+"sa.key", ".pub")...)
	check(pair(kubeletPKI+"kubelet.key", ".crt")...)
	for _, path := range lost {
		errs = append(errs, m.Host.Files.Remove(path))
	}
	return errors.Join(errs...)
}

// restoreKubeconfig writes that of a kubelet that has its certificate and lacks the file.
func (m *Machine) restoreKubeconfig(c *api.ClusterSection) error {
	missing, err := m.isEmpty(KubeletKubeconfig)
	if !missing || err != nil {
		return err
	}
	ca, err := m.Host.Files.Read(caFile)
	if err != nil {
		return err
	}
	const name = "default"
	content, err := json.Marshal(document{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{document{"name": name, "cluster": document{"server": "https://" + c.Endpoint, "certificate-authority-data": ca}}},
		"contexts": []any{document{"name": name, "context": document{"cluster": name, "user": name}}},
		"users":    []any{document{"name": name, "user": document{"client-certificate": kubeletCertificate, "client-key": kubeletCertificate}}},
	})
	if err != nil {
		return err
	}
	return m.Host.Files.Write(KubeletKubeconfig, content, rootMode)
}

// restoreEtcd lets the etcd run again whose manifest is lost. It may have its vote, and the others
// no quorum without it: then no API server answers, by which kubeadm would join the machine.
func (m *Machine) restoreEtcd(desired *api.NodeConfig) converge.Action {
	return converge.Action{Summary: "make the manifest of etcd anew, which is lost (kubeadm init phase etcd local)", Do: func(ctx context.Context) error {
		documents, err := m.initDocuments(desired, nil)
		if err != nil {
			return err
		}
		config, err := m.config(desired.Cluster, documents...)
		if err != nil {
			return err
		}
		if err := m.Host.Kubeadm.RestoreEtcd(ctx, config); err != nil {
			return explain("making the manifest of etcd anew", api.ReasonJoinFailed, err)
		}
		return m.Host.Kubeadm.Sync()
	}}
}
