#!/bin/bash
# Makes a machine a member of its Kubernetes cluster with kubeadm (1.31 or later): an example
# of a script_path for nodehitch, to be changed.
#
# nodehitch-cluster.service runs it as root when the agent has written other facts, at boot,
# and again after a failure. It may be killed at any line, so each step survives repeats.
#
# The machine's image has containerd, kubelet, kubeadm, kubectl and python3, and reaches the
# container images. If the endpoint is an address that the masters share, the image also has
# what gives it to one of them, such as keepalived.
set -euo pipefail

facts=/etc/nodehitch/cluster.json       # what the agent has written: read, never changed
joined=/var/lib/nodehitch/kubeadm-done  # is there once the machine is a member
network=${NETWORK_ADDON:-}              # manifest of the network add-on; empty if the image has one
config=/run/nodehitch-kubeadm           # kubeadm's configuration: it holds secrets, so not on a disk

# What an interrupted attempt leaves, and kubeadm takes up again.
repeated=FileAvailable--etc-kubernetes-kubelet.conf,FileAvailable--etc-kubernetes-bootstrap-kubelet.conf
repeated+=,FileAvailable--etc-kubernetes-pki-ca.crt,DirAvailable--etc-kubernetes-manifests,DirAvailable--var-lib-etcd
for component in kube-apiserver kube-controller-manager kube-scheduler etcd; do
  repeated+=,FileAvailable--etc-kubernetes-manifests-$component.yaml
done
for port in 2379 2380 6443 10250 10257 10259; do
  repeated+=,Port-$port
done

# configure writes init.yaml and join.yaml, in JSON, which is YAML too, and prints the step:
# init, join-master, join-worker or wait.
configure() {
  install -d -m 700 "$config"
  (umask 077 && python3 - "$facts" "$config" "$(kubeadm version -o short)") <<'END'
import json, sys

facts, config, version = sys.argv[1:]
with open(facts, encoding="utf-8") as f:
    facts = json.load(f)
endpoint, port = facts["endpoint"], int(facts["endpoint"].rsplit(":", 1)[1])
local = {"bindPort": port}
for master in facts["masters"]:
    if master["serverId"] == facts["serverId"] and master["addresses"]:
        local["advertiseAddress"] = master["addresses"][0]


def kubeadm(kind, **values):
    return dict(values, kind=kind, apiVersion="kubeadm.k8s.io/v1beta4")


def write(name, *documents):
    with open(config + "/" + name, "w", encoding="utf-8") as f:
        f.write("\n---\n".join(json.dumps(d) for d in documents))


master = facts["role"] == "master"
token = {"token": facts["bootstrapToken"], "apiServerEndpoint": endpoint,
         "caCertHashes": [facts.get("caCertificateHash", "")]}
if master:
    write("init.yaml",
          # The own token makes no other needed. The agent deletes it once the machine has a Node.
          kubeadm("InitConfiguration", localAPIEndpoint=local, certificateKey=facts["certificateKey"],
                  bootstrapTokens=[{"token": facts["bootstrapToken"], "ttl": "24h0m0s"}]),
          kubeadm("ClusterConfiguration", kubernetesVersion=version, controlPlaneEndpoint=endpoint,
                  apiServer={"certSANs": [a for a in [facts.get("externalAddress")] if a]},
                  networking={"podSubnet": facts["podCIDR"], "serviceSubnet": facts["serviceCIDR"]}))
    control_plane = {"localAPIEndpoint": local, "certificateKey": facts["certificateKey"]}
    write("join.yaml", kubeadm("JoinConfiguration", discovery={"bootstrapToken": token}, controlPlane=control_plane))
    write("resume.yaml", kubeadm("JoinConfiguration", controlPlane=control_plane,
                                 discovery={"file": {"kubeConfigPath": "/etc/kubernetes/admin.conf"}}))
else:
    write("join.yaml", kubeadm("JoinConfiguration", discovery={"bootstrapToken": token}))
if facts["initialize"]:
    print("init")
elif "caCertificateHash" not in facts:
    print("wait")
else:
    print("join-" + facts["role"])
END
}

# has_node says whether the kubelet has a certificate, and so a Node. Its token is gone then.
has_node() {
  [[ -e /var/lib/kubelet/pki/kubelet-client-current.pem && -e /etc/kubernetes/kubelet.conf ]]
}

step=$(configure)

# A master that is a member gives its certificates to those that join: the key changes with
# the masters, and kubeadm deletes the certificates after two hours. For a master that joins
# later than that, run `systemctl start nodehitch-cluster` on one that is a member.
if [[ -e $joined ]]; then
  if [[ -e $config/init.yaml ]]; then
    kubeadm init phase upload-certs --upload-certs --skip-certificate-key-print --config "$config/init.yaml"
  fi
  exit
fi

case $step in
wait)
  echo "The cluster is not there yet: its first master makes it, then the facts change."
  exit
  ;;
init)
  kubeadm init --config "$config/init.yaml" --upload-certs --skip-token-print --skip-certificate-key-print \
    --ignore-preflight-errors "$repeated"
  if [[ -n $network ]]; then
    kubectl --kubeconfig /etc/kubernetes/admin.conf apply -f "$network"
  fi
  ;;
join-worker)
  has_node || kubeadm join --config "$config/join.yaml" --ignore-preflight-errors "$repeated"
  ;;
join-master)
  if has_node; then # what is left of an interrupted attempt, with the credentials that it has fetched
    kubeadm join --config "$config/resume.yaml" \
      --skip-phases preflight,control-plane-prepare,kubelet-start,kubelet-wait-bootstrap
  else
    kubeadm join --config "$config/join.yaml" --ignore-preflight-errors "$repeated"
  fi
  ;;
esac
install -D -m 600 /dev/null "$joined"
