"""A Magnum cloud of the driver capi-helm, whose clusters come with an NFD and a GPU operator: nothing is installed twice.

The tests share one stack and run in the order they are written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.cluster import node_tools
from sandbox.system.files import read_json, write_json
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep, at_night("a cluster of its own for each")]

STACK = """
config:
  gpu-pools:cluster:
    platform: magnum
    name: small
    driver: capi-helm
    template: {image: flatcar, externalNetwork: public, flavor: m2.large}
    labels: {auto_scaling_enabled: "true"}
  gpu-pools:flavors:
    g2.5xlarge: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 1}
  gpu-pools:sharing:
    mixed: {mig: {layout: {3g.20gb: 1, 2g.10gb: 2}}}
  gpu-pools:operator: {install: true}
  gpu-pools:nodeFeatureDiscovery: {install: true}
  gpu-pools:verification: {}
  gpu-pools:pools:
    - {name: mig, flavor: g2.5xlarge, count: 1, sharing: mixed}
"""
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    """A stack that takes its cloud for one whose add-ons are switched off; they are on."""
    made = shared_sandbox(STACK)
    made.preview().ok()
    seed = made.sandbox.openstack_seed
    write_json(seed, {**read_json(seed), "addOns": {"nodeFeatureDiscovery": True, "gpuOperator": True}})
    return made


def _installed(trial: Trial) -> dict[str, list[tuple[str, str]]]:
    """Namespace and name of what there may be one of."""
    deployments = trial.api().list("/apis/apps/v1/deployments")["items"]
    named: dict[str, list[tuple[str, str]]] = {"gpu-operator": [], "nfd-master": []}
    for item in deployments:
        text = str(item["spec"]["template"])
        for what, found in named.items():
            if what in text:
                found.append((item["metadata"]["namespace"], item["metadata"]["annotations"]["meta.helm.sh/release-name"]))
    return named


def _policy(trial: Trial) -> dict[str, Any]:
    (policy,) = trial.api().list(POLICIES)["items"]
    return dict(policy)


def test_a_second_copy_is_refused_with_the_remedy(trial: Trial) -> None:
    refused = trial.engine("up", "--yes", "--skip-preview")
    assert refused.code != 0
    assert 'namespaces "node-feature-discovery" already exists' in refused.text
    assert "nodeFeatureDiscovery: {install: false}" in refused.text
    assert "Traceback" not in refused.text
    assert _installed(trial) == {
        "gpu-operator": [("gpu-operator", "nvidia-gpu-operator")],
        "nfd-master": [("node-feature-discovery", "node-feature-discovery")],
    }
    # As the real provider, a preview says nothing of what exists: it might be about to go.
    trial.engine("preview").ok()


def test_the_operator_that_is_there_is_configured_and_the_stack_ends_verified(trial: Trial) -> None:
    before = _policy(trial)
    for section in ("operator", "nodeFeatureDiscovery"):
        trial.edit(lambda config, section=section: config.update({f"gpu-pools:{section}": {"install": False}}))
    trial.up().ok()
    assert trial.holds()
    policy = _policy(trial)
    assert policy["metadata"]["annotations"]["meta.helm.sh/release-name"] == "nvidia-gpu-operator"
    assert policy["metadata"]["labels"] == before["metadata"]["labels"]
    assert policy["spec"]["mig"] == {"strategy": "mixed"}
    assert policy["spec"]["devicePlugin"]["config"]["name"] == "gpu-pools-device-plugin"
    assert policy["spec"]["migManager"]["config"]["name"] == "gpu-pools-mig-parted"
    assert policy["spec"]["toolkit"] == before["spec"]["toolkit"], "the owner's own settings stay"
    assert _installed(trial) == {
        "gpu-operator": [("gpu-operator", "nvidia-gpu-operator")],
        "nfd-master": [("node-feature-discovery", "node-feature-discovery")],
    }
    trial.engine("preview", "--expect-no-changes").ok()
    if node_tools.obstacle() is None:
        assert trial.run("verify", trial.stack).ok().out.splitlines()[-1] == "1 node: 1 proven"
        (node,) = trial.nodes("mig")
        told = json.loads(node["metadata"]["annotations"]["gpu-pools/verification"])["observed"]["setBy"]
        assert set(told) == {f"label {key}" for pool in trial.plan().pools for key in pool.labels}
        assert set(told.values()) == {"nfd"}, "no label that the driver was asked for reaches a node"


def test_a_changed_label_of_the_template_is_a_new_template_and_an_upgrade_of_the_cluster(trial: Trial) -> None:
    """In place it would be planned as an update, and then Magnum would refuse it: a template in use cannot be changed."""
    trial.edit(lambda config: config["gpu-pools:cluster"]["template"].update(labels={"monitoring_enabled": "true"}))
    steps = [(step["urn"].split("::")[2].rpartition(":")[2], step["op"]) for step in trial.planned_steps()]
    assert {op for kind, op in steps if kind == "ClusterTemplate"} == {"replace"}
    assert [op for kind, op in steps if kind == "Cluster"] == ["update"]
    assert not [op for kind, op in steps if kind == "NodeGroup"]


def test_a_step_over_a_version_of_kubernetes_is_refused_before_and_by_whom_it_would_be_without(trial: Trial) -> None:
    """The driver goes by the image's version, and asks nobody: it has begun by the time that Cluster API refuses it."""
    trial.edit(lambda config: config["gpu-pools:cluster"]["template"].update(image="newer", labels={}))
    images = [{"name": "flatcar", "kubeVersion": "v1.34.2"}, {"name": "newer", "kubeVersion": "v1.36.0"}]
    seed = trial.sandbox.openstack_seed
    write_json(seed, {**read_json(seed), "images": images})
    refused = trial.engine("preview")
    assert refused.code != 0
    assert "gpu-pools:cluster.template.image" in refused.text
    assert "the cluster small has Kubernetes v1.34.2, and cannot go to v1.36.0" in refused.text
    trial.edit(lambda config: config["gpu-pools:cluster"].update(checkCloud=False))
    failed = trial.engine("up", "--yes", "--skip-preview")
    assert failed.code != 0
    assert "cannot update Kubernetes version from v1.34.2 to v1.36.0" in failed.text
    assert trial.magnum()["clusters"][0]["status"] == "UPDATE_FAILED"


def test_down_leaves_nothing(trial: Trial) -> None:
    trial.down().ok()
    assert not trial.root.exists()
    assert trial.processes() == {}
