"""Options of Magnum's clusters through the real engine: what the real Magnum has of them, and what a change of one means.

The driver of the sandbox makes machines of none of them: that Magnum takes, keeps and answers them is what is seen here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sandbox.openstack.magnum_api import MagnumApi
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

STACK = """
config:
  gpu-pools:cluster:
    platform: magnum
    name: closed
    driver: heat
    template:
      image: fcos
      externalNetwork: public
      flavor: m2.large
      labels: {cloud_provider_enabled: "true"}
      httpProxy: http://proxy.example.com:3128
      httpsProxy: http://proxy.example.com:3128
      noProxy: 10.0.0.0/8,.example.com
    keypair: gpu-admin
    fixedNetwork: private
    fixedSubnet: private-1
    floatingIp: false
    masterLoadBalancer: true
    availabilityZone: nova-2
    bootVolume: {size: 50, type: ssd}
    autoHealing: false
  gpu-pools:flavors:
    g2.5xlarge: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 1}
  gpu-pools:sharing:
    whole: {exclusive: {}}
  gpu-pools:pools:
    - {name: steady, flavor: g2.5xlarge, count: 1, sharing: whole}
"""


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    """A stack that is up."""
    made = shared_sandbox(STACK)
    made.up().ok()
    return made


def _read(trial: Trial) -> tuple[dict[str, Any], dict[str, Any]]:
    """The cluster and its template, as Magnum answers."""
    api = MagnumApi(trial.login())
    cluster = api._call("GET", "clusters/closed")
    return cluster, api._call("GET", f"clustertemplates/{cluster['cluster_template_id']}")


def test_magnum_has_every_option(trial: Trial) -> None:
    cluster, template = _read(trial)
    assert (template["http_proxy"], template["https_proxy"]) == ("http://proxy.example.com:3128",) * 2
    assert template["no_proxy"] == "10.0.0.0/8,.example.com"
    assert (cluster["fixed_network"], cluster["fixed_subnet"]) == ("private", "private-1")
    assert (cluster["floating_ip_enabled"], cluster["master_lb_enabled"]) == (False, True)
    assert cluster["labels"] == {
        "cloud_provider_enabled": "true",
        "availability_zone": "nova-2",
        "boot_volume_size": "50",
        "boot_volume_type": "ssd",
        "auto_healing_enabled": "false",
    }


def test_nothing_of_them_looks_changed_afterwards(trial: Trial) -> None:
    trial.engine("preview", "--refresh", "--expect-no-changes").ok()


@pytest.mark.parametrize(
    ("key", "value"), [("bootVolume", {"size": 80, "type": "ssd"}), ("floatingIp", True), ("fixedSubnet", "private-2")]
)
@at_night("three previews of one rule")
def test_a_change_of_one_would_make_the_cluster_anew(trial: Trial, key: str, value: object) -> None:
    before: dict[str, Any] = {}
    trial.edit(lambda config: before.update(config["gpu-pools:cluster"]))
    trial.edit(lambda config: config["gpu-pools:cluster"].update({key: value, "checkCloud": False}))
    steps = {step["urn"].rpartition("::")[2]: step["op"] for step in trial.planned_steps()}
    trial.edit(lambda config: config.update({"gpu-pools:cluster": before}))
    assert steps["gpu-cluster"] == "replace"
