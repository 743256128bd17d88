"""The UserData class of nodehitch for Tacker's v2 API.

Its bytes never change: what it does is in python3-nodehitch-tacker, which is installed
where tacker-conductor runs.
"""

from nodehitch.tacker.user_data_v2 import KubernetesClusterUserData

__all__ = ["KubernetesClusterUserData"]
