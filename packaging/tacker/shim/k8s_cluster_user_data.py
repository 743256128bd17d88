"""The UserData class of nodehitch for Tacker's v1 API.

A request names it as "./UserData/k8s_cluster_user_data.py", "KubernetesClusterUserData".
Its bytes never change: what it does is in python3-nodehitch-tacker.
"""

from nodehitch.tacker.user_data import KubernetesClusterUserData

__all__ = ["KubernetesClusterUserData"]
