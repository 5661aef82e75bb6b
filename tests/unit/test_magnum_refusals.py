"""Whatever Magnum 23 refuses: which of it a stack file can provoke, and who says so first.

Three ways. What the stack file alone tells is refused by the plan, so by `pulumi preview`, before anything is asked of a cloud
(PLANNED). What no stack file can ask for is held by `TestNeverAsked` in tests/components/test_magnum.py. What only the cloud
knows comes out of `pulumi up` in Magnum's own words at the resource that it is about: `TestRefusals` in
tests/sandbox/test_openstack.py shows each of them by the plugin's stand-in and a real Magnum, tests/engine/test_magnum.py the
most likely ones by the engine. What of that the cloud tells beforehand, the check of the cloud says in the preview:
tests/unit/test_magnum_cloud.py and tests/engine/test_magnum.py; without it, or when it is too early, `up` says it still.
"""

from __future__ import annotations

import pytest
import yaml

from gpu_pools.plan.planning import plan_config
from tests.unit.bad_stacks import CASES, TEMPLATE
from tests.unit.stacks import GONE, magnum

#: What Magnum refuses (status) -> the bad stack that asks for it, and which the plan refuses.
PLANNED = {
    "template: coe swarm, and any other attribute that we do not know (400)": "magnum-template-unknown-key",
    "template: network_driver weave (400)": "magnum-networkDriver-unknown",
    "template: image '' (400)": "magnum-image-empty",
    "template: flavor '' (400)": "magnum-flavor-empty",
    "template: a name of 256 characters (400)": "magnum-externalNetwork-too-long",
    "template: docker_volume_size 0 (400)": "magnum-dockerVolumeSize-zero",
    "template: a resolver's name instead of its address (400)": "magnum-dnsNameserver-a-name",
    "template: dns_nameserver that is not an address (400)": "magnum-dnsNameserver-no-address",
    "template: a list of resolvers that ends in a comma (400)": "magnum-dnsNameserver-half-a-list",
    "template: an unknown driver (400)": "magnum-unknown-driver",
    "cluster: name 1abc (400)": "magnum-name-begins-with-digit",
    "cluster: name 'a b' (400)": "magnum-name-with-a-space",
    "cluster: a name of 243 characters (400)": "magnum-name-too-long",
    "cluster: keypair '' (400)": "magnum-keypair-empty",
    "cluster: master_count 2 (400)": "magnum-even-masters",
    "cluster: node_count 0 at 1.9 (400)": "magnum-no-workers",
    "group: the name of another (409)": "pool-name-twice",
    "group: the name default-worker (409)": "pool-name-default-worker",
    "group: min above max (409)": "pool-min-above-max",
    "group: a negative min (400)": "pool-min-negative",
    "group: image '' (400)": "pool-image-empty",
    "group: a taint of an effect that is none (409)": "taint-bad-effect",
}


@pytest.mark.parametrize("case", PLANNED.values(), ids=PLANNED)
def test_the_plan_refuses_what_the_stack_file_alone_tells(case: str) -> None:
    """That each of them is refused, and with which words, is test_bad_input's matter."""
    assert case in {one.id for one in CASES}


@pytest.mark.parametrize("resolvers", ["8.8.8.8", "10.0.0.2,10.0.0.3", "1.2.3.4, 255.255.255.255"])
def test_resolvers_that_magnum_takes_are_taken(resolvers: str) -> None:
    stack = magnum(cluster={"templateId": GONE, "template": {**TEMPLATE, "dnsNameserver": resolvers}})
    assert plan_config(yaml.safe_load(stack)["config"], complete=True).settings.cluster.template.dns_nameserver == resolvers
