package members

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"net/http"
	"os"
	"slices"
	"strings"
)

// etcdMember is one, as etcd's JSON gateway has it.
type etcdMember struct {
	Name     string
	PeerURLs []string
}

// startEtcd starts the etcd of a master: the first of its cluster, or one more. One comes at a
// time, each after the one before it has started, as etcd wants it.
func (w *cluster) startEtcd(ctx context.Context, m *sitetest.Machine, f facts) error {
	w.etcdTurn.Lock()
	defer w.etcdTurn.Unlock()
	address := m.Address().String()
	files, err := w.kube.EtcdFiles(address, "127.0.0.1", "localhost")
	if err != nil {
		return err
	}
	const pki = "/etc/kubernetes/pki/etcd/"
	for name, content := range files {
		if err := m.Push(ctx, pki+name, 0o600, content); err != nil {
			return err
		}
	}
	program, err := os.ReadFile(w.kube.Binary("etcd"))
	if err != nil {
		return err
	}
	if err := m.Push(ctx, "/usr/local/bin/etcd", 0o755, program); err != nil {
		return err
	}
	peer := func(name, url string) string { return name + "=" + url }
	own := "https://" + address + ":2380"
	cluster, state := peer(m.Name(), own), "new"
	if !f.Initialize {
		members, err := w.addEtcdMember(ctx, m, own)
		if err != nil {
			return err
		}
		state = "existing"
		var all []string
		for _, known := range members {
			name := known.Name
			if slices.Contains(known.PeerURLs, own) {
				name = m.Name()
			}
			all = append(all, peer(name, known.PeerURLs[0]))
		}
		cluster = strings.Join(all, ",")
	}
	_, err = m.Exec(ctx, "systemd-run", "--unit=etcd", "--property=Restart=always", "/usr/local/bin/etcd", "--name="+m.Name(),
		"--data-dir=/var/lib/etcd", "--log-level=warn", "--unsafe-no-fsync",
		"--listen-client-urls=https://127.0.0.1:2379,https://"+address+":2379", "--advertise-client-urls=https://"+address+":2379",
		"--listen-peer-urls="+own, "--initial-advertise-peer-urls="+own, "--initial-cluster="+cluster, "--initial-cluster-state="+state,
		"--client-cert-auth", "--trusted-ca-file="+pki+"ca.crt", "--cert-file="+pki+"server.crt", "--key-file="+pki+"server.key",
		"--peer-client-cert-auth", "--peer-trusted-ca-file="+pki+"ca.crt", "--peer-cert-file="+pki+"server.crt", "--peer-key-file="+pki+"server.key")
	if err != nil {
		return err
	}
	return retry(ctx, func() error { return w.askEtcd(ctx, m, "maintenance/status", struct{}{}, &struct{}{}) })
}

// addEtcdMember makes the master one, by another master, and returns all.
func (w *cluster) addEtcdMember(ctx context.Context, m *sitetest.Machine, url string) (members []etcdMember, err error) {
	err = retry(ctx, func() error {
		for _, other := range w.masters() {
			if other == m {
				continue
			}
			known, err := w.etcdMembers(ctx, other)
			if err != nil {
				continue // it has no etcd yet
			}
			if slices.ContainsFunc(known, func(e etcdMember) bool { return slices.Contains(e.PeerURLs, url) }) {
				members = known
				return nil
			}
			var added struct{ Members []etcdMember }
			if err := w.askEtcd(ctx, other, "cluster/member/add", map[string]any{"peerURLs": []string{url}}, &added); err != nil {
				return err
			}
			members = added.Members
			return nil
		}
		return fmt.Errorf("no other master has an etcd")
	})
	return members, err
}

// etcdMembers are those that the etcd of a master knows.
func (w *cluster) etcdMembers(ctx context.Context, m *sitetest.Machine) ([]etcdMember, error) {
	var list struct{ Members []etcdMember }
	err := w.askEtcd(ctx, m, "cluster/member/list", map[string]any{"linearizable": true}, &list)
	return list.Members, err
}

func (w *cluster) askEtcd(ctx context.Context, m *sitetest.Machine, call string, request, answer any) error {
	files, err := w.kube.EtcdFiles()
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(files["healthcheck-client.crt"], files["healthcheck-client.key"])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(w.kube.CA())
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: w.Lab.Dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+m.Address().String()+":2379/v3/"+call, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd of %s: %s: %s", m.Name(), call, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// etcdNames are the members of etcd, by name, in order, as the masters know them that are
// members; they have to know the same. The etcd of a master that left has ended.
func (w *cluster) etcdNames(left ...*sitetest.Machine) []string {
	w.T.Helper()
	var names []string
	for _, m := range w.masters() {
		if slices.Contains(left, m) {
			continue
		}
		known, err := w.etcdMembers(w.T.Context(), m)
		if err != nil {
			w.T.Fatal(err)
		}
		var here []string
		for _, e := range known {
			here = append(here, e.Name)
		}
		slices.Sort(here)
		if names != nil && !slices.Equal(here, names) {
			w.T.Errorf("%s knows the etcd members %v, others know %v", m.Name(), here, names)
		}
		names = here
	}
	return names
}
