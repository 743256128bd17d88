#!/usr/bin/python3
"""Gives the cloud what stacks refer to by name: an image, a flavor, the lab's network,
and one outside of it for floating addresses."""
import subprocess

import openstack


def main():
    # The scheduler gives work only to hosts that it was told of.
    subprocess.run(["nova-manage", "--config-file", "/etc/lab/common.conf", "--config-file", "/etc/lab/nova.conf",
                    "cell_v2", "discover_hosts"], check=True)

    cloud = openstack.connect()
    cloud.create_image("lab", container_format="bare", disk_format="raw", visibility="public",
                       data=b"\0" * 1024, allow_duplicates=False, wait=True)
    cloud.create_flavor("lab.small", ram=64, vcpus=1, disk=1)

    # The first addresses are for the lab itself and for what tests put there by hand.
    inside = cloud.network.create_network(name="lab", is_shared=True)
    subnet = cloud.network.create_subnet(
        name="lab", network_id=inside.id, ip_version=4, cidr="10.10.0.0/24", gateway_ip="10.10.0.1",
        is_dhcp_enabled=False, allocation_pools=[{"start": "10.10.0.32", "end": "10.10.0.239"}])
    outside = cloud.network.create_network(name="public", is_router_external=True, is_shared=True)
    cloud.network.create_subnet(
        name="public", network_id=outside.id, ip_version=4, cidr="203.0.113.0/24", is_dhcp_enabled=False)
    router = cloud.network.create_router(name="lab", external_gateway_info={"network_id": outside.id})
    cloud.network.add_interface_to_router(router, subnet_id=subnet.id)


main()
