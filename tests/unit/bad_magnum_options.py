"""Magnum stacks with options that do not fit, each with the problem that must be told; a part of bad_stacks.py."""

from __future__ import annotations

from typing import Any, Final

from tests.unit.bad_case import Case
from tests.unit.stacks import GONE, magnum

_CLUSTER: Final = "gpu-pools:cluster"
_TEMPLATE: Final = {"image": "fcos", "externalNetwork": "public", "flavor": "m2.large"}


def _cluster(id_: str, cluster: dict[str, Any], place: str, message: str, allowed: str = "", remedy: str = "") -> Case:
    return Case(f"magnum-cluster-{id_}", magnum(cluster=cluster), f"{_CLUSTER}.{place}", message, allowed, remedy)


def _template(id_: str, template: dict[str, Any], place: str, message: str, allowed: str = "", remedy: str = "") -> Case:
    cluster = {"templateId": GONE, "template": {**_TEMPLATE, **template}}
    return Case(f"magnum-template-{id_}", magnum(cluster=cluster), f"{_CLUSTER}.template.{place}", message, allowed, remedy)


MAGNUM_OPTION_CASES: Final = (
    _template("proxy-without-scheme", {"httpProxy": "proxy:3128"}, "httpProxy", '"proxy:3128"', "http://proxy.example.com:3128"),
    _template("proxy-with-password", {"httpsProxy": "http://me:secret@proxy:3128"}, "httpsProxy", "", "without a user"),
    _template("proxy-socks", {"httpProxy": "socks5://proxy:1080"}, "httpProxy", '"socks5://proxy:1080"', "e.g. http://"),
    _template("proxy-a-number", {"httpsProxy": 3128}, "httpsProxy", "3128 is not a text"),
    _template("proxy-with-a-path", {"httpProxy": "http://proxy/pac/file"}, "httpProxy", "", "e.g. http://"),
    _template("no-proxy-with-blanks", {"noProxy": "10.0.0.1, 10.0.0.2"}, "noProxy", "", "no blanks"),
    _template("no-proxy-too-long", {"noProxy": "a" * 256}, "noProxy", "", "at most 255 characters"),
    _template("no-proxy-empty-part", {"noProxy": "a,,b"}, "noProxy", '"a,,b"', "with commas between"),
    _template("no-proxy-a-list", {"noProxy": ["a", "b"]}, "noProxy", "is not a text"),
    _template("proxy-mistyped", {"httpproxy": "http://proxy:3128"}, "httpproxy", "unknown key", "httpProxy", "httpProxy"),
    _cluster("network-a-number", {"fixedNetwork": 7}, "fixedNetwork", "7 is not a text"),
    _cluster("network-too-long", {"fixedNetwork": "n" * 256}, "fixedNetwork", "", "1 to 255 characters"),
    _cluster("subnet-a-list", {"fixedSubnet": ["a"]}, "fixedSubnet", "is not a text"),
    _cluster("floating-ip-a-text", {"floatingIp": "no"}, "floatingIp", '"no"', "true"),
    _cluster("floating-ip-a-number", {"floatingIp": 0}, "floatingIp", "0", "true"),
    _cluster("balancer-a-text", {"masterLoadBalancer": "yes"}, "masterLoadBalancer", '"yes"', "true"),
    _cluster(
        "balancer-off-for-three",
        {"masterLoadBalancer": False, "masters": 3},
        "masterLoadBalancer",
        "3 masters need a load balancer",
        "one master",
        "Remove it",
    ),
    _cluster("zone-a-list", {"availabilityZone": ["nova"]}, "availabilityZone", "is not a text"),
    _cluster(
        "zone-twice",
        {"availabilityZone": "nova", "labels": {"availability_zone": "nova"}},
        "labels.availability_zone",
        "is written as `availabilityZone`, too",
        "one of the two",
        "Remove the label",
    ),
    _cluster("volume-a-number", {"bootVolume": 50}, "bootVolume", "50 is not a mapping with size"),
    _cluster("volume-without-size", {"bootVolume": {"type": "ssd"}}, "bootVolume.size", "is missing"),
    _cluster("volume-of-nothing", {"bootVolume": {"size": 0}}, "bootVolume.size", "0 is out of bounds", "at least 1"),
    _cluster("volume-with-a-unit", {"bootVolume": {"size": "50Gi"}}, "bootVolume.size", '"50Gi" is not'),
    _cluster("volume-key-unknown", {"bootVolume": {"size": 50, "kind": "ssd"}}, "bootVolume.kind", "unknown key", "size"),
    _cluster(
        "volume-twice",
        {"bootVolume": {"size": 50}, "labels": {"boot_volume_size": "20"}},
        "labels.boot_volume_size",
        "is written as `bootVolume.size`, too",
    ),
    _cluster(
        "healing-twice",
        {"autoHealing": True, "labels": {"auto_healing_enabled": "false"}},
        "labels.auto_healing_enabled",
        "is written as `autoHealing`, too",
    ),
    _cluster("healing-a-text", {"autoHealing": "true"}, "autoHealing", '"true"', "true"),
)
