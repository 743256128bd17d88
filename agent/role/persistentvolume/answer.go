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

// errChanged: what was looked at is not so any more.
var errChanged = converge.Wait(api.ReasonConverging, "a PersistentVolume was changed while it was looked at")

// explain says in words of conditions why the API server did not do what it was asked
// to. kubeadm writes the kubeconfig before the cluster takes it, so that a refusal is
// waited out as well.
func (c *cluster) explain(err error) error {
	var status apierrors.APIStatus
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return c.unusable("what answers is not the API server that %s trusts: %v", c.path, err)
	case !errors.As(err, &status):
		c.lost = true
		return c.unusable("the API server does not answer: %v", err)
	case apierrors.IsUnauthorized(err):
		return c.unusable("the API server does not take the credentials of %s%s: %v; renew them, as `kubeadm certs renew admin.conf` does", c.path, c.age(), err)
	case lacksRight(err):
		return c.unusable("the user of %s is not allowed to get, list, create, patch and delete persistentvolumes: %v", c.path, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the API server refuses: %w", err)
	case apierrors.IsConflict(err):
		return errChanged
	}
	return c.unusable("the API server cannot do it: %v", err)
}

func (c *cluster) unusable(format string, args ...any) error {
	return converge.Wait(api.ReasonClusterNotInstalled, format, args...)
}

// age says that the certificate has expired, by this machine's clock: kubelet's is
// renewed by itself, the kubeconfig's is not.
func (c *cluster) age() string {
	if c.expires.IsZero() || time.Now().Before(c.expires) {
		return ""
	}
	return ", whose certificate has expired on " + c.expires.UTC().Format(time.DateOnly)
}

// lacksRight tells a user that RBAC does not let in from a request that admission
// refuses, which is 403 as well.
func lacksRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot ") && strings.Contains(err.Error(), " resource ")
}

// explainApply is explain for a manifest, which may itself be what is wrong.
func (c *cluster) explainApply(name string, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		againstSchema(err) || apierrors.IsForbidden(err) && !lacksRight(err) {
		return converge.Fail(api.ReasonManifestRejected, "the API server refuses PersistentVolume %s: %v", name, err)
	}
	return c.explain(err)
}

// againstSchema says that the manifest has a field that the API server does not know, or
// a value that is not of the field's type. Server-side apply is always strict about
// these, and answers 500, as it does when its store is away.
func againstSchema(err error) bool {
	return apierrors.IsInternalError(err) &&
		(strings.Contains(err.Error(), "failed to create typed patch object") || strings.Contains(err.Error(), "failed to convert new object"))
}

// noAnswer says that the error is of the cluster as a whole.
func noAnswer(err error) bool {
	var waiting *converge.Waiting
	return errors.As(err, &waiting) && waiting.Reason == api.ReasonClusterNotInstalled
}
