package stacks

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// extend extends the volume in Cinder, once while the storage server has it and once while
// no server has it. Nobody tells the controller.
func (c *cluster) extend(*results.Case) {
	node, volume := c.one(api.RoleStorage), c.instance().Topology.Volumes[0].ID
	c.extendVolume(volume, 2)
	// The agent looks by itself every five minutes.
	c.run(node, "systemctl", "restart", "nodehitch-agent")
	c.hasGrown(node, 1, 2)

	attachments := openstack.NovaURL + "/servers/" + node.ID + "/os-volume_attachments"
	c.call(http.MethodDelete, attachments+"/"+volume, nil, nil)
	c.Until("no server has the volume", func() error {
		if holder := c.hyper.holder(volume); holder != "" {
			return fmt.Errorf("the server %s has it", holder)
		}
		return nil
	})
	c.extendVolume(volume, 3)
	c.call(http.MethodPost, attachments, map[string]any{"volumeAttachment": map[string]any{"volumeId": volume}}, nil)
	c.hasGrown(node, 2, 3)
	c.Until("all is served", func() error {
		if n := c.one(api.RoleStorage); !n.Ready {
			return fmt.Errorf("the storage server is %+v", n.Status)
		}
		return nil
	})
	c.available()
}

// extendVolume has Cinder extend the volume, and the lab make its disk larger.
func (c *cluster) extendVolume(volume string, gib int64) {
	c.T.Helper()
	url := openstack.CinderURL + "/volumes/" + volume
	c.call(http.MethodPost, url+"/action", map[string]any{"os-extend": map[string]any{"new_size": gib}}, nil)
	c.Until("Cinder has extended the volume", func() error {
		var answer struct {
			Volume struct {
				Status string
				Size   int64
			}
		}
		c.call(http.MethodGet, url, nil, &answer)
		if v := answer.Volume; v.Size != gib || v.Status != "in-use" && v.Status != "available" {
			return fmt.Errorf("it is %+v", v)
		}
		return nil
	})
	disk, err := c.hyper.disk(volume)
	if m := c.hyper.machine(c.hyper.holder(volume)); err == nil && m != nil {
		err = m.Extend(c.T.Context(), volume, gib<<30)
	} else if err == nil {
		err = os.Truncate(disk.Path, gib<<30)
	}
	if err != nil {
		c.T.Fatal(err)
	}
}

// hasGrown waits for the room, and expects the data to be there.
func (c *cluster) hasGrown(node api.Node, from, to int64) {
	c.T.Helper()
	want := fmt.Sprintf("/volume (grown from %d to %d bytes)", from<<30, to<<30)
	c.Until(want, func() error {
		var n api.Node
		if err := c.JSON(c.T.Context(), &n, "get", "node", node.ID); err != nil {
			return err
		}
		mounted := n.Status.Condition(api.ConditionVolumesMounted)
		if mounted == nil || mounted.Status != api.ConditionTrue || !strings.Contains(mounted.Message, want) {
			return fmt.Errorf("%s is %+v", api.ConditionVolumesMounted, mounted)
		}
		return nil
	})
	if size := c.instance().Topology.Volumes[0].SizeBytes; size != to<<30 {
		c.T.Errorf("the topology says %d bytes, want %d", size, to<<30)
	}
	if got := c.run(node, "cat", "/volume/nfs/pv1/file"); got != "precious\n" {
		c.T.Errorf("the file holds %q", got)
	}
}

func (c *cluster) call(method, url string, body, answer any) {
	c.T.Helper()
	if err := c.account.Call(c.T.Context(), method, url, body, answer); err != nil {
		c.T.Fatal(err)
	}
}
