#!/bin/sh
# Fills an empty database server with the tables of every service. Half of them at a
# time: each tool takes some seconds to import its service.
set -eu
cd /etc/lab
mkdir -p /var/lib/glance/images /var/lib/glance/tasks /var/lib/glance/staging
{
	for name in keystone glance neutron nova nova_api nova_cell0 placement cinder heat; do
		echo "create database $name character set utf8mb3;"
	done
	echo "create user cloud@'127.0.0.1' identified by 'lab'; grant all on *.* to cloud@'127.0.0.1';"
} | mariadb --wait # it listens at its port before it does at its socket

identity_and_others() {
	set -e
	keystone-manage --config-file keystone.conf db_sync
	keystone-manage --config-file keystone.conf fernet_setup --keystone-user root --keystone-group root
	keystone-manage --config-file keystone.conf credential_setup --keystone-user root --keystone-group root
	keystone-manage --config-file keystone.conf bootstrap --bootstrap-password lab --bootstrap-region-id RegionOne \
		--bootstrap-admin-url http://10.10.0.1:5000 --bootstrap-internal-url http://10.10.0.1:5000 \
		--bootstrap-public-url http://10.10.0.1:5000
	heat-manage --config-file common.conf --config-file heat.conf db_sync
	cinder-manage --config-file common.conf --config-file cinder.conf db sync
}

compute_and_others() {
	set -e
	OS_PLACEMENT_CONFIG_DIR=/etc/lab/placement placement-manage --config-file placement/placement.conf db sync
	nova="nova-manage --config-file common.conf --config-file nova.conf"
	$nova api_db sync
	$nova cell_v2 map_cell0 --database_connection 'mysql+pymysql://cloud:lab@127.0.0.1/nova_cell0?charset=utf8'
	$nova db sync
	$nova cell_v2 create_cell --name cell1
	glance-manage --config-file common.conf --config-file glance.conf db sync
	neutron-db-manage --config-file common.conf --config-file neutron.conf upgrade heads
}

identity_and_others &
first=$!
compute_and_others
wait "$first"
