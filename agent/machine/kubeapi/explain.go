package kubeapi

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

// Explain turns the API server's error into the reason of a condition; nil stays nil. kubeadm
// writes the kubeconfig before the cluster accepts it, so refusals are retried too.
func (c *Client) Explain(err error) error {
	var status apierrors.APIStatus
	var untrusted *tls.CertificateVerificationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &untrusted):
		return unusable("the server that answers is not the API server that %s trusts: %v", c.Path, err)
	case !errors.As(err, &status):
		c.lost = true
		return unusable("the API server does not answer: %v", err)
	case apierrors.IsConflict(err):
		return converge.Wait(api.ReasonConverging, "it was changed while the agent compared it: %v", err)
	case apierrors.IsUnauthorized(err):
		return unusable("the API server does not accept the credentials of %s%s: %v; %s", c.Path, c.age(), err, c.renewal)
	case LacksRight(err):
		return unusable("the user of %s is not allowed to %s: %v", c.Path, c.rights, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the API server refuses: %w", err)
	}
	return unusable("the API server failed: %v", err)
}

func unusable(format string, args ...any) error {
	return converge.Wait(api.ReasonClusterNotInstalled, format, args...)
}

// age says that the certificate has expired, by this machine's clock. kubelet renews its
// own certificate, but not the kubeconfig's.
func (c *Client) age() string {
	if c.certificate == nil || time.Now().Before(c.certificate.NotAfter) {
		return ""
	}
	return ", whose certificate expired on " + c.certificate.NotAfter.UTC().Format(time.DateOnly)
}

// LacksRight distinguishes a refusal by RBAC from one by admission, which is 403 too.
func LacksRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot ") && strings.Contains(err.Error(), " resource ")
}

// NoAnswer reports whether an error of Explain concerns the whole cluster.
func NoAnswer(err error) bool {
	var waiting *converge.Waiting
	return errors.As(err, &waiting) && waiting.Reason == api.ReasonClusterNotInstalled
}
