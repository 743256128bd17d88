// Command podnetwork is the network of Pods on machines of the lab, in a DaemonSet
// (manifest.yaml). The Pods of a node have addresses of its podCIDR, from CNI's plugin ptp,
// and each node has a route to the Pods of each other node.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// configuration is a file of the node; containerd looks for it.
const configuration = "/etc/cni/net.d/10-podnetwork.conflist"

// protocol marks the routes that are ours.
const protocol = "77"

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	nodes, err := nodes()
	if err != nil {
		log.Fatal(err)
	}
	for ctx.Err() == nil {
		if err := followNodes(ctx, nodes, os.Getenv("NODE_NAME")); err != nil && ctx.Err() == nil {
			log.Print(err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

func nodes() (dynamic.ResourceInterface, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	// Before kube-proxy has its rules nothing answers.
	config.Dial = (&net.Dialer{Timeout: time.Second}).DialContext
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}), nil
}

// followNodes does what the Nodes ask for, and returns when one has changed.
func followNodes(ctx context.Context, nodes dynamic.ResourceInterface, own string) error {
	list, err := nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := apply(ctx, list.Items, own); err != nil {
		return err
	}
	limit := int64(60)
	changes, err := nodes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), TimeoutSeconds: &limit})
	if err != nil {
		return err
	}
	defer changes.Stop()
	<-changes.ResultChan()
	return nil
}

func apply(ctx context.Context, nodes []unstructured.Unstructured, own string) error {
	want := map[string]string{} // network of Pods → address of its node
	var errs []error
	for _, node := range nodes {
		network, _, _ := unstructured.NestedString(node.Object, "spec", "podCIDR")
		address := internalAddress(node)
		switch {
		case network == "": // it gets one soon
		case node.GetName() == own:
			errs = append(errs, configure(network))
		case address != "":
			want[network] = address
		}
	}
	return errors.Join(append(errs, setRoutes(ctx, want))...)
}

func internalAddress(node unstructured.Unstructured) string {
	addresses, _, _ := unstructured.NestedSlice(node.Object, "status", "addresses")
	for _, each := range addresses {
		if a, ok := each.(map[string]any); ok && a["type"] == "InternalIP" {
			address, _ := a["address"].(string)
			return address
		}
	}
	return ""
}

type object = map[string]any

// configure tells containerd how Pods of this node get their addresses.
func configure(network string) error {
	config, err := json.Marshal(object{"cniVersion": "1.0.0", "name": "podnetwork", "plugins": []object{
		{"type": "ptp", "ipam": object{
			"type": "host-local", "ranges": [][]object{{{"subnet": network}}}, "routes": []object{{"dst": "0.0.0.0/0"}},
		}},
		{"type": "portmap", "capabilities": object{"portMappings": true}},
	}})
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(configuration); err == nil && string(old) == string(config) {
		return nil
	}
	// containerd watches the folder, and ignores a file with another ending.
	next := filepath.Join(filepath.Dir(configuration), ".podnetwork")
	if err := os.WriteFile(next, config, 0o644); err != nil {
		return err
	}
	log.Printf("the Pods of this node have addresses of %s", network)
	return os.Rename(next, configuration)
}

// setRoutes leaves these routes to other nodes' Pods, and no others of ours.
func setRoutes(ctx context.Context, want map[string]string) error {
	out, err := ip(ctx, "-json", "route", "show", "proto", protocol)
	if err != nil {
		return err
	}
	var have []struct{ Dst, Gateway string }
	if err := json.Unmarshal(out, &have); err != nil {
		return fmt.Errorf("reading the routes: %w", err)
	}
	var errs []error
	there := map[string]string{}
	for _, route := range have {
		there[route.Dst] = route.Gateway
		if want[route.Dst] == "" {
			log.Printf("no route to %s any more", route.Dst)
			_, err := ip(ctx, "route", "del", route.Dst, "proto", protocol)
			errs = append(errs, err)
		}
	}
	for network, address := range want {
		if there[network] != address {
			log.Printf("a route to %s by %s", network, address)
			_, err := ip(ctx, "route", "replace", network, "via", address, "proto", protocol)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func ip(ctx context.Context, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "ip", args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("ip %q: %w: %s", args, err, exit.Stderr)
	}
	return out, err
}
