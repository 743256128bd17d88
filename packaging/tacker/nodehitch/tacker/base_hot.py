"""What a base HOT asks for, for both APIs of Tacker."""

from typing import Any, Collection, Dict, Iterable, List

from nodehitch import client


def need_networks(points: Iterable[str], networks: Collection[str]) -> None:
    """Refuse a request that names no network for a connection point. Heat's error would not name the point."""
    missing = sorted(set(points) - set(networks))
    if missing:
        raise client.Error("extVirtualLinks of the request: no extCps entry has the cpdId %s; the base HOT needs the network of each"
                           % ", ".join(missing))


def nested(base_hot: Any) -> List[str]:
    """The resources outside of groups whose type is a template."""
    return sorted(name for name, each in base_hot["resources"].items() if str(each["type"]).endswith((".yaml", ".yml")))


def sizes(base_hot: Any) -> Dict[str, str]:
    """The parameters that say how large the groups are, by group."""
    groups = {name: each["properties"].get("desired_capacity") for name, each in base_hot["resources"].items()
              if each["type"] == "OS::Heat::AutoScalingGroup"}
    return {name: size["get_param"] for name, size in groups.items() if isinstance(size, dict) and isinstance(size.get("get_param"), str)}
