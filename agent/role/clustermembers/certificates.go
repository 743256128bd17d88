package clustermembers

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/shared/api"
)

// certificatesName is the Secret in which kubeadm gives the certificates of the control plane to
// masters that join. kubeadm lets it end after two hours.
const certificatesName = "kubeadm-certs"

// certificates plans to give the certificates of the control plane to masters that have no Node,
// if the cluster does not have them under the key that the masters know: it changes with the
// masters. Only where nodehitch makes the cluster.
func (u *update) certificates(ctx context.Context, machine *kubeadm.Machine, desired *api.NodeConfig) error {
	if desired.Kubernetes == nil || desired.Cluster == nil {
		return nil
	}
	waiting := slices.DeleteFunc(slices.Clone(u.members), func(m api.ClusterMember) bool {
		return m.Role != api.RoleMaster || u.leaves(m.ServerID) || u.hasNode(m.ServerID)
	})
	if len(waiting) == 0 {
		return nil
	}
	there, err := u.givesCertificates(ctx, desired.Cluster.CertificateKey)
	if there || err != nil {
		return err
	}
	u.do("certificates", fmt.Sprintf("give the certificates of the control plane to %d masters that have no Node", len(waiting)), func(ctx context.Context) error {
		return machine.UploadCertificates(ctx, desired)
	})
	return nil
}

// givesCertificates reports whether the cluster has the certificates under this key.
func (u *update) givesCertificates(ctx context.Context, key string) (bool, error) {
	secret, err := u.secrets().Get(ctx, certificatesName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, u.Explain(err)
	}
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	return decrypts(key, data["ca.crt"]), nil
}

// decrypts reports whether kubeadm has encrypted a value of the Secret with this key: AES-GCM,
// the nonce first.
func decrypts(key, value string) bool {
	secret, errKey := hex.DecodeString(key)
	sealed, errValue := base64.StdEncoding.DecodeString(value)
	block, err := aes.NewCipher(secret)
	if errKey != nil || errValue != nil || err != nil {
		return false
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil || len(sealed) < gcm.NonceSize() {
		return false
	}
	_, err = gcm.Open(nil, sealed[:gcm.NonceSize()], sealed[gcm.NonceSize():], nil)
	return err == nil
}
