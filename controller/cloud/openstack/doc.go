// Package openstack is the connection to clouds: it reads stacks from Heat, servers
// from Nova, ports from Neutron and volumes from Cinder, and writes single metadata
// items of servers. Types and errors are its own: nothing of the client library
// leaves it, and no answer of a cloud gets into an error, because it can contain secrets.
package openstack
