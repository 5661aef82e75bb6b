"""How labels and taints reach nodes where a cloud's pool labels don't: labellers, rules, kubelet options."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gpu_pools.plan.placing import (
    FEATURES_FOLDER,
    labeller_daemon_set_spec,
    labeller_name,
    labeller_selector,
    node_feature_rule,
    node_group_labels,
    rule_name,
)
from gpu_pools.platforms.existing.cluster import ExistingSettings
from gpu_pools.platforms.magnum.cluster import NODE_GROUP_LABELS, MagnumDriver, MagnumSettings
from sandbox.system.patience import Patience
from tests.patience import scaled
from tests.unit.stacks import aks, existing, magnum, plan_of, pool_of

if TYPE_CHECKING:
    from pathlib import Path

TAINTED = {"taints": ["nvidia.com/gpu=true:NoSchedule", "example.com/team:NoExecute"]}


class TestSelector:
    @pytest.mark.parametrize(
        ("driver", "label"),
        [
            ("heat", "magnum.openstack.org/nodegroup"),
            ("magnum-cluster-api", "node.cluster.x-k8s.io/nodegroup"),
            ("capi-helm", "capi.stackhpc.com/node-group"),
        ],
    )
    def test_the_drivers_node_group_label(self, driver: str, label: str) -> None:
        plan = plan_of(magnum(cluster={"driver": driver}))
        assert labeller_selector(plan.settings.cluster, plan.pools[0]) == {label: "gpu"}

    def test_every_driver_has_one(self) -> None:
        assert set(NODE_GROUP_LABELS) == {"heat", "magnum-cluster-api", "capi-helm"}

    def test_the_users_selector_on_an_existing_cluster(self) -> None:
        pool_plan = pool_of(existing({"nodeSelector": {"pool": "a", "zone": "b"}}))
        assert labeller_selector(ExistingSettings(), pool_plan) == {"pool": "a", "zone": "b"}

    def test_none_on_aks(self) -> None:
        plan = plan_of(aks())
        with pytest.raises(ValueError, match="needs no labeller"):
            labeller_selector(plan.settings.cluster, plan.pools[0])

    def test_none_while_the_driver_is_unknown(self) -> None:
        with pytest.raises(ValueError, match="Magnum driver is not known"):
            labeller_selector(MagnumSettings(), pool_of(magnum()))


class TestRule:
    def test_labels_follow_the_marker(self) -> None:
        pool_plan = pool_of(existing({"labels": {"example.com/team": "a"}}))
        (rule,) = node_feature_rule(pool_plan)["rules"]
        assert rule == {
            "name": "gpu-pools gpu",
            "labels": {
                "example.com/team": "a",
                "gpu-pools/pool": "gpu",
                "nvidia.com/device-plugin.config": pool_plan.config_key,
                "nvidia.com/mig.config": "all-disabled",
            },
            "matchFeatures": [
                {"feature": "local.feature", "matchExpressions": {"gpu-pools/pool": {"op": "In", "value": ["gpu"]}}}
            ],
        }

    @pytest.mark.parametrize("driver", ["magnum-cluster-api", "capi-helm"])
    def test_taints_where_the_driver_sets_none(self, driver: str) -> None:
        (rule,) = node_feature_rule(pool_of(magnum(TAINTED, cluster={"driver": driver})), driver)["rules"]
        assert rule["taints"] == [
            {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"},
            {"key": "example.com/team", "effect": "NoExecute"},
        ]

    def test_no_taints_where_kubelets_set_them_or_the_nodes_have_them(self) -> None:
        assert "taints" not in node_feature_rule(pool_of(magnum(TAINTED)), "heat")["rules"][0]
        assert "taints" not in node_feature_rule(pool_of(existing(TAINTED)))["rules"][0]


class TestNodeGroupLabels:
    def test_taints_at_birth_with_heat(self) -> None:
        labels = node_group_labels(pool_of(magnum(TAINTED)), MagnumSettings(driver="heat"))
        assert labels == {"kubelet_options": "--register-with-taints=nvidia.com/gpu=true:NoSchedule,example.com/team=:NoExecute"}

    def test_the_taint_of_the_cern_talk_is_born_with_the_node(self) -> None:
        """NFD may not set a key below kubernetes.io; the kubelet may."""
        pool_plan = pool_of(magnum({"taints": ["node-role.kubernetes.io/gpu=true:NoSchedule"]}))
        assert node_group_labels(pool_plan, MagnumSettings(driver="heat")) == {
            "kubelet_options": "--register-with-taints=node-role.kubernetes.io/gpu=true:NoSchedule"
        }

    def test_the_users_labels_pass_through(self) -> None:
        pool_plan = pool_of(magnum({"nodeGroupLabels": {"nvidia_gpu_enabled": "true"}}))
        assert node_group_labels(pool_plan, MagnumSettings(driver="heat")) == {"nvidia_gpu_enabled": "true"}

    def test_the_users_kubelet_options_are_kept(self) -> None:
        pool_plan = pool_of(magnum({**TAINTED, "nodeGroupLabels": {"kubelet_options": "--v=2"}}))
        labels = node_group_labels(pool_plan, MagnumSettings(driver="heat"))
        assert labels["kubelet_options"].startswith("--v=2 --register-with-taints=")

    @pytest.mark.parametrize("driver", ["magnum-cluster-api", "capi-helm", None])
    def test_no_kubelet_options_with_other_drivers(self, driver: MagnumDriver | None) -> None:
        assert node_group_labels(pool_of(magnum(TAINTED)), MagnumSettings(driver=driver)) == {}


class TestLabeller:
    TOLERATIONS = ({"key": "sku", "operator": "Exists", "effect": "NoSchedule"},)
    SPEC = labeller_daemon_set_spec(pool_of(magnum()), {"a": "b"}, TOLERATIONS, "busybox:1")

    def test_it_runs_on_the_pools_nodes_only(self) -> None:
        pod = self.SPEC["template"]["spec"]
        assert pod["nodeSelector"] == {"a": "b"}
        assert pod["tolerations"] == list(self.TOLERATIONS)
        assert self.SPEC["template"]["metadata"]["labels"] == self.SPEC["selector"]["matchLabels"]
        assert self.SPEC["selector"]["matchLabels"]["app.kubernetes.io/name"] == "gpu-pools-marker"

    def test_it_may_do_little(self) -> None:
        pod = self.SPEC["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["automountServiceAccountToken"] is False
        assert container["image"] == "busybox:1"
        assert container["env"] == [{"name": "GPU_POOLS_POOL", "value": "gpu"}]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert pod["volumes"] == [{"name": "features", "hostPath": {"path": FEATURES_FOLDER, "type": "DirectoryOrCreate"}}]

    def test_its_script_writes_a_feature_that_outlives_a_restart(self, tmp_path: Path) -> None:
        """The file is whole when NFD sees it, stays when the pod is replaced, and expires on a node that left the pool."""
        (container,) = self.SPEC["template"]["spec"]["containers"]
        command = [part.replace("/features.d", str(tmp_path)) for part in container["command"]]
        feature = tmp_path / "gpu-pools"
        script = subprocess.Popen(command, env={**os.environ, "GPU_POOLS_POOL": "gpu"}, start_new_session=True)
        try:
            _wait_until(feature.exists)
            no_label, expiry, name = feature.read_text(encoding="utf-8").splitlines()
            assert (no_label, name) == ("# +no-label", "gpu-pools/pool=gpu")
            until = datetime.fromisoformat(expiry.removeprefix("# +expiry-time="))
            assert timedelta(hours=23) < until - datetime.now(UTC) <= timedelta(hours=24)
            assert list(tmp_path.iterdir()) == [feature]
            script.terminate()
            assert script.wait(timeout=scaled(60)) == 0
            assert feature.exists()
        finally:
            # Its own session: the sleep of the script goes with it, unless both have ended by themselves.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGKILL)
            script.wait()

    def test_of_a_pool_that_is_replaced_it_says_the_id_too_in_a_file_of_its_own(self, tmp_path: Path) -> None:
        """A line of no label holds for one feature alone (node-feature-discovery 0.18.3, source/local/local.go)."""
        pool = pool_of(magnum({"replace": "inPlace"}))
        spec = labeller_daemon_set_spec(pool, {"a": "b"}, [], "busybox:1")
        (container,) = spec["template"]["spec"]["containers"]
        command = [part.replace("/features.d", str(tmp_path)) for part in container["command"]]
        told = {entry["name"]: entry["value"] for entry in container["env"]}
        script = subprocess.Popen(command, env={**os.environ, **told}, start_new_session=True)
        try:
            feature = tmp_path / "gpu-pools-generation"
            _wait_until(feature.exists)
            no_label, _, name, again, replacement_id = feature.read_text(encoding="utf-8").splitlines()
            assert no_label == again == "# +no-label"
            assert (name, replacement_id) == ("gpu-pools/pool=gpu", f"gpu-pools/generation={pool.replacement_id}")
            assert list(tmp_path.iterdir()) == [feature]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGKILL)
            script.wait()
        assert spec["selector"]["matchLabels"]["gpu-pools/generation"] == pool.replacement_id

    def test_each_replacement_has_a_rule_and_a_labeller_of_its_own(self) -> None:
        pool = pool_of(magnum({"replace": "inPlace"}))
        assert (rule_name(pool), labeller_name(pool)) == (
            f"gpu-pools-gpu-{pool.replacement_id}",
            f"gpu-pools-marker-gpu-{pool.replacement_id}",
        )
        (rule,) = node_feature_rule(pool, "heat")["rules"]
        (feature,) = rule["matchFeatures"]
        values = {key: match["value"] for key, match in feature["matchExpressions"].items()}
        assert values == {"gpu-pools/pool": ["gpu"], "gpu-pools/generation": [pool.replacement_id]}
        assert rule["labels"]["gpu-pools/generation"] == pool.replacement_id
        plain = pool_of(magnum())
        assert (rule_name(plain), labeller_name(plain)) == ("gpu-pools-gpu", "gpu-pools-marker-gpu")


def _wait_until(condition: object) -> None:
    deadline = Patience(60)
    while not condition():  # type: ignore[operator]
        assert not deadline.is_over()
        time.sleep(0.01)
