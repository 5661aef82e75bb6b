"""The gate as it is registered: what is shared, what each pool has, and what waits for what."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.components.platform import GpuPlatform
from gpu_pools.components.proof.verification import Verification, Verifier, changer_file, program_file
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.verifier import evidence
from gpu_pools.verifier.archive import digest
from gpu_pools.verifier.expectation import parse_expectation

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

CONFIG: dict[str, Any] = {
    "cluster": {"platform": "existing", "context": "byo"},
    "sharing": {"whole": {"exclusive": {}}, "slices": {"timeSlicing": {"replicas": 4}}},
    "pools": [
        {"name": "a", "nodeSelector": {"p": "a"}, "gpuModel": "NVIDIA A10", "gpusPerNode": 1, "sharing": "whole"},
        {"name": "b", "nodeSelector": {"p": "b"}, "gpuModel": "NVIDIA A10", "gpusPerNode": 2, "sharing": "slices"},
    ],
    "verification": {"deadlineSeconds": 100},
}


@pytest.fixture
def deployed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    settings: Any = CONFIG
    return run(lambda: GpuPlatform("gpu", settings))


def expectations(recorded: Recorder) -> dict[str, Any]:
    """Pool -> its ConfigMap."""
    found = {name.split("-")[1]: name for name in _expectation_names(recorded)}
    return {pool: recorded.one("ConfigMap", name).inputs for pool, name in found.items()}


def _expectation_names(recorded: Recorder) -> list[str]:
    return [one.name for one in recorded.of("ConfigMap") if "-verification-expectation-" in one.name]


def test_each_pool_has_an_expectation_that_the_verifier_reads(deployed: Recorder) -> None:
    found = expectations(deployed)
    assert set(found) == {"a", "b"}
    for pool, config_map in found.items():
        assert config_map["immutable"] is True
        assert parse_expectation(json.loads(config_map["data"]["expectation.json"])).pool == pool


def test_each_pool_s_pods_mount_its_own_expectation_and_the_one_program(deployed: Recorder) -> None:
    names = {pool: config_map["metadata"]["name"] for pool, config_map in expectations(deployed).items()}
    (program,) = [one.inputs["metadata"]["name"] for one in deployed.of("ConfigMap") if "binaryData" in one.inputs]
    for pool, name in names.items():
        spec = deployed.one("DaemonSet", f"gpu-{pool}-verification-verifier").inputs["spec"]["template"]["spec"]
        mounted = {volume["name"]: volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume}
        assert mounted == {"program": program, "expectation": name}
        assert spec["nodeSelector"] == {"p": pool}


def test_the_program_is_the_verifier(deployed: Recorder) -> None:
    (data,) = [one.inputs["binaryData"] for one in deployed.of("ConfigMap") if "binaryData" in one.inputs]
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(data["verifier.pyz"]))) as packed:
        assert "verifier/compare_node.py" in packed.namelist()


#: Not the verifiers' own: what a hook of the operator's release may do to them.
LEAVE = ("gpu-verifier-leave", "gpu-verifier-leave-binding")


def test_a_hook_may_take_verifiers_away_where_nodes_are_given_back(deployed: Recorder) -> None:
    role = deployed.one("Role", LEAVE[0]).inputs
    assert role["metadata"] == {"name": "gpu-pools-leave", "namespace": "gpu-pools-verifier"}
    assert role["rules"] == [{"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["list", "delete"]}]


def test_nobody_has_rights_before_the_policy_narrows_them(deployed: Recorder) -> None:
    kinds = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    rights = [one for kind in kinds for one in deployed.of(f":{kind}") if one.name not in LEAVE]
    assert len(rights) == 6
    for one in rights:
        assert {"gpu-verifier-policy", "gpu-verifier-policy-binding"} <= {
            *deployed.depends_on(one.name),
            *deployed.depends_on("gpu-verifier-policy-binding"),
        }


def test_rights_are_bound_to_the_account_of_the_pods(deployed: Recorder) -> None:
    account = deployed.one("ServiceAccount").inputs["metadata"]
    hook = {"name": "gpu-pools-leave", "namespace": "gpu-operator"}
    for one in [*deployed.of(":ClusterRoleBinding"), *deployed.of(":RoleBinding")]:
        assert one.inputs["subjects"] == [{"kind": "ServiceAccount", **(hook if one.name in LEAVE else account)}]
    for pool in ("a", "b"):
        daemon_set = deployed.one("DaemonSet", f"gpu-{pool}-verification-verifier").inputs
        assert daemon_set["metadata"]["namespace"] == account["namespace"]
        assert daemon_set["spec"]["template"]["spec"]["serviceAccountName"] == account["name"]


def test_a_pool_is_verified_after_everything_that_makes_it_what_it_is(deployed: Recorder) -> None:
    for pool in ("a", "b"):
        waits = deployed.depends_on(f"gpu-{pool}-verification-verifier")
        assert {f"gpu-{pool}-labels-rule", "gpu-operator-release", "gpu-verifier-role-binding"} <= waits
        assert waits & {*_expectation_names(deployed)}


def test_another_expectation_is_another_resource(deployed: Recorder) -> None:
    """A fixed name for changing objects ends in `already exists` after a failure: the old one waits for its deletion."""
    for pool, inputs in expectations(deployed).items():
        name = f"gpu-{pool}-verification-{inputs['metadata']['name']}"
        options = deployed.options(name)
        # What a stack of an earlier version has is kept.
        assert [alias.spec.name for alias in options.aliases] == [f"gpu-{pool}-verification-expectation"]
        assert options.deleteBeforeReplace


def test_what_changes_nodes_is_a_config_map_that_only_pools_with_a_rollout_mount(
    run: Run, deployed: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the pods of the other pool stay when one pool gets a rollout."""

    def volumes(recorded: Recorder, pool: str) -> dict[str, str]:
        spec = recorded.one("DaemonSet", f"gpu-{pool}-verification-verifier").inputs["spec"]["template"]["spec"]
        return {one["name"]: one["configMap"]["name"] for one in spec["volumes"] if "configMap" in one}

    def files(recorded: Recorder) -> dict[str, list[str]]:
        made = [one.inputs for one in recorded.of("ConfigMap") if "binaryData" in one.inputs]
        assert all(one["immutable"] for one in made)
        return {one["metadata"]["name"]: list(one["binaryData"]) for one in made}

    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    first, second = CONFIG["pools"]
    settings: Any = {**CONFIG, "pools": [first, {**second, "rollout": {}}]}
    rolled = run(lambda: GpuPlatform("gpu", settings))
    program = f"verifier-{hashlib.sha256(program_file()).hexdigest()[:10]}"
    changer = f"changer-{hashlib.sha256(changer_file()).hexdigest()[:10]}"
    assert files(deployed) == {program: ["verifier.pyz"]}
    assert files(rolled) == {program: ["verifier.pyz"], changer: ["changer.pyz"]}
    assert volumes(rolled, "b")["changer"] == changer
    name = "gpu-a-verification-verifier"
    assert rolled.one("DaemonSet", name).inputs["spec"] == deployed.one("DaemonSet", name).inputs["spec"]


def test_the_engine_waits_longer_than_the_verifier(deployed: Recorder) -> None:
    timeouts = deployed.options("gpu-a-verification-verifier").customTimeouts
    assert timeouts.create == timeouts.update == "160s"


def test_without_the_section_there_is_no_verifier(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    settings: Any = {key: value for key, value in CONFIG.items() if key != "verification"}
    told: list[Any] = []
    recorded = run(lambda: GpuPlatform("gpu", settings).verification.apply(told.append))
    assert told[0]["enabled"] is False
    assert "nothing is proven" in told[0]["why"]
    assert not [one.name for one in recorded.resources if "verif" in one.name]


def test_the_output_says_where_the_reports_are_and_what_counts(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    told: list[Any] = []

    def program() -> None:
        settings: Any = CONFIG
        GpuPlatform("gpu", settings).verification.apply(told.append)

    deployed = run(program)
    (output,) = told
    (config_map,) = [one.inputs["metadata"]["name"] for one in deployed.of("ConfigMap") if "binaryData" in one.inputs]
    sha256 = hashlib.sha256(program_file()).hexdigest()
    assert output["program"] == {"configMap": config_map, "key": "verifier.pyz", "sha256": sha256, "digest": digest()}
    assert (output["enabled"], output["intervalSeconds"], output["context"]) == (True, 300, "byo")
    assert (output["condition"], output["annotation"]) == (evidence.CONDITION, evidence.ANNOTATION)
    assert set(output["pools"]) == {"a", "b"}
    for pool, inputs in expectations(deployed).items():
        said = output["pools"][pool]
        text = inputs["data"][output["expectationKey"]]
        assert said["expectation"] == inputs["metadata"]["name"]
        assert said["sha256"] == hashlib.sha256(text.encode()).hexdigest()
        daemon_set = deployed.one("DaemonSet", f"gpu-{pool}-verification-verifier").inputs["spec"]
        labels = daemon_set["template"]["metadata"]["labels"]
        assert dict(pair.split("=") for pair in said["podSelector"].split(",")) == labels
        assert said["nodeSelector"] == daemon_set["template"]["spec"]["nodeSelector"]
    assert "very-secret-token" not in json.dumps(output)


def test_alone_it_takes_sections_of_a_stack_file(run: Run) -> None:
    def program() -> None:
        verifier = Verifier("v", {})
        config = {"cluster": {"platform": "existing"}, **{key: CONFIG[key] for key in ("sharing", "pools", "verification")}}
        Verification("b", {"pool": "b", "program": verifier.program, "config": config})

    recorded = run(program)
    assert recorded.one("DaemonSet").inputs["metadata"]["name"] == "gpu-pools-verifier-b"


def test_a_pool_that_is_not_planned_is_refused(run: Run) -> None:
    def program() -> None:
        config = {key: CONFIG[key] for key in ("cluster", "sharing", "pools")}
        with pytest.raises(InvalidStackError, match='"c" is not a pool of the plan'):
            Verification("c", {"pool": "c", "program": "p", "config": config})

    assert run(program).resources == []
