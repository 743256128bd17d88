package persistentvolume

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

var errChanged = converge.Wait(api.ReasonConverging, "a PersistentVolume was changed while the agent compared it")

// explain turns the API server's error into the reason of the condition.
func (c *cluster) explain(err error) error {
	if apierrors.IsConflict(err) {
		return errChanged
	}
	return c.Explain(err)
}

// explainApply is explain for a manifest, which may itself be wrong.
func (c *cluster) explainApply(name string, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		againstSchema(err) || apierrors.IsForbidden(err) && !kubeapi.LacksRight(err) {
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
