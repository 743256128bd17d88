package openstacktest

import (
	"cmp"
	"maps"
	"net/http"
)

// serverObject is a server as Nova shows it to its owner.
func (c *Cloud) serverObject(s Server) object {
	addresses := object{}
	for network, list := range s.Addresses {
		var out []object
		for _, a := range list {
			out = append(out, object{"version": 4, "addr": a, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:5c:86:6a"})
		}
		addresses[network] = out
	}
	metadata := maps.Clone(s.Metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	bookmark := func(what, id string) object {
		return object{"id": id, "links": []object{{"rel": "bookmark", "href": c.URL + "/compute/" + what + "/" + id}}}
	}
	attached := []object{}
	for _, v := range c.state.volumes {
		for _, id := range v.AttachedTo {
			if id == s.ID {
				attached = append(attached, object{"id": v.ID})
			}
		}
	}
	return object{
		"id": s.ID, "name": s.Name, "status": cmp.Or(s.Status, "ACTIVE"), "tenant_id": cmp.Or(s.Project, ProjectID),
		"user_id": "357ec0eafb1f4e4bae9c341e53aac4e5", "metadata": metadata, "addresses": addresses,
		"OS-EXT-AZ:availability_zone": cmp.Or(s.Zone, "nova"), "hostId": "89bd4db26ab02f6c190c7fa0dc4f7e870fa7c7bb429f1d08451d8961",
		"image": bookmark("images", "c9ab7d59-8c82-4f84-99d3-df8a3dd6596d"), "flavor": bookmark("flavors", "8aaafe39-afed-43c2-91a5-00cd825aecaf"),
		"links":   []object{{"rel": "self", "href": c.URL + "/compute/v2.1/servers/" + s.ID}, {"rel": "bookmark", "href": c.URL + "/compute/servers/" + s.ID}},
		"created": stamp, "updated": stamp, "accessIPv4": "", "accessIPv6": "", "OS-DCF:diskConfig": "MANUAL", "progress": 0,
		"config_drive": "", "key_name": nil, "OS-SRV-USG:launched_at": "2026-11-22T06:14:45.000000", "OS-SRV-USG:terminated_at": nil,
		"security_groups": []object{{"name": "default"}}, "OS-EXT-STS:task_state": nil, "OS-EXT-STS:vm_state": "active",
		"OS-EXT-STS:power_state": 1, "os-extended-volumes:volumes_attached": attached,
	}
}

func (c *Cloud) listVolumes(r *http.Request) reply {
	list := []object{}
	for _, v := range c.state.volumes {
		status, attachments := "available", []object{}
		for _, server := range v.AttachedTo {
			status = "in-use"
			attachments = append(attachments, object{
				"id": v.ID, "attachment_id": "4b3a9e2c-6a0e-4d55-8f0c-1a7a3c9c2b11", "volume_id": v.ID, "server_id": server,
				"host_name": nil, "device": "/dev/vdb", "attached_at": "2026-11-22T06:14:45.000000"})
		}
		list = append(list, object{
			"id": v.ID, "name": v.Name, "status": status, "size": v.SizeGiB, "attachments": attachments,
			"availability_zone": "nova", "created_at": "2026-11-22T06:18:42.000000", "updated_at": "2026-11-22T06:18:43.000000",
			"description": nil, "volume_type": "__DEFAULT__", "snapshot_id": nil, "source_volid": nil, "metadata": object{},
			"links": []object{{"rel": "self", "href": c.URL + "/volume/v3/" + ProjectID + "/volumes/" + v.ID},
				{"rel": "bookmark", "href": c.URL + "/volume/" + ProjectID + "/volumes/" + v.ID}},
			"user_id": "357ec0eafb1f4e4bae9c341e53aac4e5", "bootable": "false", "encrypted": false, "replication_status": nil,
			"consistencygroup_id": nil, "multiattach": false, "os-vol-tenant-attr:tenant_id": ProjectID,
		})
	}
	return c.page(r, "volumes", list)
}
