package persistentvolume

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

var errChanged = converge.Wait(api.ReasonConverging, "a PersistentVolume was changed while the agent compared it")

// explain turns the API server's error into the reason of a condition. kubeadm writes
// the kubeconfig before the cluster accepts it, so refusals are retried too.
func (c *cluster) explain(err error) error {
	var status apierrors.APIStatus
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return c.unusable("the server that answers is not the API server that %s trusts: %v", c.path, err)
	case !errors.As(err, &status):
		c.lost = true
		return c.unusable("the API server does not answer: %v", err)
	case apierrors.IsUnauthorized(err):
		return c.unusable("the API server does not accept the credentials of %s%s: %v; renew them, for example with `kubeadm certs renew admin.conf`", c.path, c.age(), err)
	case lacksRight(err):
		return c.unusable("the user of %s is not allowed to get, list, create, patch and delete persistentvolumes: %v", c.path, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the API server refuses: %w", err)
	case apierrors.IsConflict(err):
		return errChanged
	}
	return c.unusable("the API server failed: %v", err)
}

func (c *cluster) unusable(format string, args ...any) error {
	return converge.Wait(api.ReasonClusterNotInstalled, format, args...)
}

// age says that the certificate has expired, by this machine's clock. kubelet renews its
// own certificate, but not the kubeconfig's.
func (c *cluster) age() string {
	if c.expires.IsZero() || time.Now().Before(c.expires) {
		return ""
	}
	return ", whose certificate expired on " + c.expires.UTC().Format(time.DateOnly)
}

// lacksRight distinguishes a refusal by RBAC from one by admission, which is 403 too.
func lacksRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot ") && strings.Contains(err.Error(), " resource ")
}

// explainApply is explain for a manifest, which may itself be wrong.
func (c *cluster) explainApply(name string, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		againstSchema(err) || apierrors.IsForbidden(err) && !lacksRight(err) {
		return converge.Fail(api.ReasonManifestRejected, "the API server refuses PersistentVolume %s: %v", name, err)
	}
	return c.explain(err)
}

// againstSchema reports whether the manifest has an unknown field or a value of a wrong
// type. Server-side apply always refuses these with 500, the status of a failed store.
func againstSchema(err error) bool {
	return apierrors.IsInternalError(err) &&
		(strings.Contains(err.Error(), "failed to create typed patch object") || strings.Contains(err.Error(), "failed to convert new object"))
}

// noAnswer reports whether the error concerns the whole cluster.
func noAnswer(err error) bool {
	var waiting *converge.Waiting
	return errors.As(err, &waiting) && waiting.Reason == api.ReasonClusterNotInstalled
}
