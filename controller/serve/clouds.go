package serve

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/config"
)

// openClouds is the clouds of the configuration, nil if it has none.
func openClouds(c config.OpenStack, observe func(service, call string, status int), log *slog.Logger) (*openstack.Clouds, error) {
	if !c.Configured() {
		return nil, nil
	}
	clouds, err := openstack.New(openstack.Options{
		CloudsFile: c.CloudsFile, Cloud: c.Cloud, UseVIM: c.VIMConnectionInfo,
		Timeout: time.Duration(c.TimeoutSeconds) * time.Second, Log: log, Observe: observe,
	})
	if err != nil {
		return nil, fmt.Errorf("openstack of the configuration: %w", err)
	}
	return clouds, nil
}

// sourceOf is where topologies come from.
func sourceOf(clouds *openstack.Clouds) stack.Source {
	if clouds == nil {
		return stack.Inline{}
	}
	return stack.Heat{Clouds: clouds}
}
