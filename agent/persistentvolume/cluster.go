package persistentvolume

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// fieldManager is by whom fields are owned in the cluster.
const fieldManager = "nodehitch"

var persistentVolumes = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}

// cluster is the PersistentVolumes of the cluster that a kubeconfig leads to.
type cluster struct {
	kubeconfig []byte
	volumes    dynamic.ResourceInterface
	idle       func() // gives up the connections that nothing is under way on
}

// connect is the cluster of the kubeconfig as it is now; connections are kept while
// that is the same.
func (s *step) connect() (*cluster, error) {
	content, err := s.Host.Files.Read(s.Kubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, converge.Wait(api.ReasonClusterNotInstalled, "there is no %s, so no cluster is installed on this node yet", s.Kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	if s.known != nil && bytes.Equal(s.known.kubeconfig, content) {
		return s.known, nil
	}
	c, err := s.dial(content)
	if err != nil {
		return nil, err
	}
	if s.known != nil {
		s.known.idle()
	}
	s.known = c
	return c, nil
}

// dial makes a client; it sends nothing. What is wrong with the content is not
// repeated, for it holds a key.
func (s *step) dial(content []byte) (*cluster, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, converge.Wait(api.ReasonClusterNotInstalled, "%s is not a whole kubeconfig", s.Kubeconfig)
	}
	if config.ExecProvider != nil || config.AuthProvider != nil {
		return nil, converge.Wait(api.ReasonClusterNotInstalled,
			"%s has a program give the credentials, which the agent does not run; have it hold a client certificate or a token", s.Kubeconfig)
	}
	config.Timeout = s.RequestLimit
	config.QPS = -1 // a handful of requests, and each pass ends
	config.UserAgent = "nodehitch-agent/" + version.Version
	config.WarningHandler = rest.NoWarnings{}
	if config.Proxy == nil { // the API server of this very node; the environment's proxy is not the way
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, converge.Wait(api.ReasonClusterNotInstalled, "%s: its certificates or its key cannot be used", s.Kubeconfig)
	}
	resources, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, converge.Wait(api.ReasonClusterNotInstalled, "%s: its server cannot be used", s.Kubeconfig)
	}
	return &cluster{kubeconfig: content, volumes: resources.Resource(persistentVolumes), idle: client.CloseIdleConnections}, nil
}

// get is the volume of this name, nil where there is none.
func (c *cluster) get(ctx context.Context, name string) (*volume, error) {
	u, err := c.volumes.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err)
	}
	return &volume{u}, nil
}

// list is every volume of the cluster.
func (c *cluster) list(ctx context.Context) ([]volume, error) {
	found, err := c.volumes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, explain(err)
	}
	var all []volume
	for i := range found.Items {
		all = append(all, volume{&found.Items[i]})
	}
	return all, nil
}

// delete deletes this very volume as it was seen; one that is gone already is no error.
func (c *cluster) delete(ctx context.Context, v volume) error {
	uid, seen := v.GetUID(), v.GetResourceVersion()
	err := c.volumes.Delete(ctx, v.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &seen},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// waitGone waits for what was deleted to be gone, and says what is not by the limit.
func (c *cluster) waitGone(ctx context.Context, limit time.Duration, names ...string) error {
	over := time.NewTimer(limit)
	defer over.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var left []error
		for _, name := range names {
			v, err := c.get(ctx, name)
			if err != nil {
				return err
			}
			if v != nil && v.deleting() {
				left = append(left, v.stuck())
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-over.C:
			return errors.Join(left...)
		case <-ctx.Done():
			return errors.Join(left...)
		case <-tick.C:
		}
	}
}

// errChanged: what was looked at is not so any more.
var errChanged = converge.Wait(api.ReasonConverging, "a PersistentVolume was changed while it was looked at")

// explain says in words of conditions why the API server did not do what it was asked
// to. kubeadm writes the kubeconfig before the cluster takes it, so that a refusal is
// waited out as well.
func explain(err error) error {
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		return converge.Wait(api.ReasonClusterNotInstalled, "the API server does not answer: %v", err)
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return converge.Wait(api.ReasonClusterNotInstalled, "the API server refuses the kubeconfig: %v", err)
	case apierrors.IsConflict(err):
		return errChanged
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return converge.Fail(api.ReasonManifestRejected, "the API server refuses: %v", err)
	}
	return converge.Wait(api.ReasonClusterNotInstalled, "the API server cannot do it: %v", err)
}

// noAnswer says that the error is of the cluster as a whole.
func noAnswer(err error) bool {
	var waiting *converge.Waiting
	return errors.As(err, &waiting) && waiting.Reason == api.ReasonClusterNotInstalled
}
