#!/usr/bin/python3
"""Tells an empty Keystone who there is: the account of the services, the endpoints,
and the domain in which Heat keeps accounts of its own."""
import os

from keystoneauth1 import session
from keystoneauth1.identity import v3
from keystoneclient.v3 import client

HOST = "http://10.10.0.1"
ENDPOINTS = {
    ("glance", "image"): HOST + ":9292",
    ("neutron", "network"): HOST + ":9696",
    ("nova", "compute"): HOST + ":8774/v2.1",
    ("placement", "placement"): HOST + ":8778",
    ("cinderv3", "volumev3"): HOST + ":8776/v3/%(project_id)s",
    ("heat", "orchestration"): HOST + ":8004/v1/%(tenant_id)s",
    ("heat-cfn", "cloudformation"): HOST + ":8000/v1",
}


def main():
    password = os.environ["OS_PASSWORD"]
    admin = v3.Password(auth_url=os.environ["OS_AUTH_URL"], username="admin", password=password,
                        project_name="admin", user_domain_name="Default", project_domain_name="Default")
    keystone = client.Client(session=session.Session(admin))
    roles = {role.name: role for role in keystone.roles.list()}
    for name in ("service", "heat_stack_user", "heat_stack_owner"):
        if name not in roles:
            roles[name] = keystone.roles.create(name)

    project = keystone.projects.create("service", domain="default")
    account = keystone.users.create("service", domain="default", password=password, default_project=project)
    for name in ("admin", "service"):
        keystone.roles.grant(roles[name], user=account, project=project)

    for (name, kind), url in ENDPOINTS.items():
        service = keystone.services.create(name, kind)
        for interface in ("public", "internal", "admin"):
            keystone.endpoints.create(service, url, interface=interface, region="RegionOne")

    domain = keystone.domains.create("heat")
    owner = keystone.users.create("heat_domain_admin", domain=domain, password=password)
    keystone.roles.grant(roles["admin"], user=owner, domain=domain)


main()
