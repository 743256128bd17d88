"""The management script of nodehitch for Tacker's v2 API.

Tacker runs it from the VNF package, once for each hook. Its bytes never change: what it
does is in python3-nodehitch-tacker, which is installed where tacker-conductor runs.
"""

from nodehitch.tacker import script

if __name__ == "__main__":
    script.main()
