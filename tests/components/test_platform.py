"""The whole platform, from the stack files of the project: what is registered, in which order, and what is refused."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi
import pytest
from pulumi.runtime import config as runtime_config

from gpu_pools.components.arguments.stack_config import read_stack_config
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.plan.planning import plan_config
from gpu_pools.reading.section import Section
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError, Problems
from tests.tiers import these

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

PROJECT = Path(__file__).parents[2]
STACKS = ("aks-dev", "aks-prod", "magnum-dev", "magnum-prod", "byo")
#: In `make test` one of each platform.
EACH = these(STACKS, ("aks-dev",))
PREFIX = "gpu-pools:"
UNVERIFIED: Any = ({}, {"verification": {"enabled": False}})


def settings(stack: str) -> Any:
    """The sections of one of the project's stack files."""
    config = read_stack_file(PROJECT / "stacks" / f"Pulumi.{stack}.yaml")
    return {key.removeprefix(PREFIX): value for key, value in config.items() if key.startswith(PREFIX)}


@pytest.fixture
def deploy(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Recorder]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return lambda stack: run(lambda: GpuPlatform("gpu", settings(stack)))


def _empty(value: Any, path: str) -> Iterator[str]:
    if value in ([], None):
        yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _empty(item, f"{path}.{key}")


class TestEveryStack:
    """What holds on all platforms."""

    @pytest.mark.parametrize("stack", EACH)
    def test_each_mapping_of_the_stack_is_read_once(self, deploy: Any, stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[str] = []
        plain = Section.__init__

        def reading(section: Section, value: object, path: str, problems: Problems, **what: str) -> None:
            read.append(path)
            plain(section, value, path, problems, **what)

        monkeypatch.setattr(Section, "__init__", reading)
        deploy(stack)
        assert {"gpu-pools:cluster", "gpu-pools:pools[0]"} <= set(read)
        assert [path for path in read if not path.startswith("gpu-pools:")] == []
        assert len(read) == len(set(read))

    @pytest.mark.parametrize("stack", EACH)
    def test_each_name_of_a_node_label_s_key_is_in_the_config_maps(self, deploy: Any, stack: str) -> None:
        recorded = deploy(stack)
        keys = {key for patch in recorded.of("ConfigMapPatch") for key in patch.inputs["data"]}
        labels = [pool.inputs["nodeLabels"] for pool in recorded.of("AgentPool")]
        labels += [rule.inputs["spec"]["rules"][0]["labels"] for rule in recorded.of("NodeFeatureRule")]
        assert len(labels) == len(settings(stack)["pools"])
        assert {label["nvidia.com/device-plugin.config"] for label in labels} <= keys

    @pytest.mark.usefixtures("deploy")  # its kubeconfig
    @pytest.mark.parametrize("stack", EACH)
    def test_no_object_has_what_the_api_server_does_not_keep(self, run: Run, stack: str) -> None:
        """Empty lists: a refresh would show each as a change, and make Jobs anew."""
        recorded = run(lambda: GpuPlatform("gpu", {**settings(stack), "verification": {"smokeTest": True}}))
        objects = [one for one in recorded.resources if one.type.startswith("kubernetes:") and one.inputs.get("spec")]
        assert {one.type.rpartition(":")[2] for one in objects} >= {"DaemonSet", "Job"}
        workloads = [one for one in objects if one.type.rpartition(":")[2] in {"DaemonSet", "Job"}]
        assert {one.name: found for one in workloads if (found := list(_empty(one.inputs["spec"], "spec")))} == {}

    @pytest.mark.parametrize("stack", EACH)
    def test_nfd_comes_before_the_operator_and_the_operator_before_the_pools(self, deploy: Any, stack: str) -> None:
        recorded = deploy(stack)
        assert "gpu-nfd-release" in recorded.depends_on("gpu-operator-release")
        last = [*recorded.of("AgentPool"), *recorded.of("NodeGroup"), *recorded.of("NodeFeatureRule"), *recorded.of("DaemonSet")]
        for resource in last:
            if not resource.name.startswith("gpu-operator-"):
                before = {"gpu-operator-release", "gpu-operator-device-plugin", "gpu-operator-key-wait"}
                assert before <= recorded.depends_on(resource.name)

    @pytest.mark.parametrize("stack", ["aks-dev", "magnum-dev"])
    def test_without_verification_an_update_ends_only_when_no_node_names_an_old_key(self, run: Run, stack: str) -> None:
        verified, bare = (run(lambda kept=kept: GpuPlatform("gpu", {**settings(stack), **kept})) for kept in UNVERIFIED)
        assert not [one for one in verified.of("DaemonSet") if one.name == "gpu-keys-left"]
        pools = {one.name for kind in ("AgentPool", "NodeFeatureRule") for one in bare.of(kind)}
        assert pools <= bare.depends_on("gpu-keys-left")

    @pytest.mark.parametrize("stack", EACH)
    def test_everything_waits_for_what_the_platform_waits_for(self, run: Run, deploy: Any, stack: str) -> None:
        deploy(stack)  # for what it needs in place

        def program() -> None:
            first = pulumi.CustomResource("test:index:First", "first", {})
            GpuPlatform("gpu", settings(stack), pulumi.ResourceOptions(depends_on=[first]))

        recorded = run(program)
        custom = [request for request in recorded.requests.values() if request.custom and request.name != "first"]
        assert len(custom) > 5
        assert [request.name for request in custom if not any(urn.endswith("::first") for urn in request.dependencies)] == []

    @pytest.mark.parametrize("stack", EACH)
    @pytest.mark.parametrize("verified", [True, False])
    def test_what_is_in_the_cluster_is_made_by_its_provider_and_goes_with_it(
        self, run: Run, deploy: Any, stack: str, *, verified: bool
    ) -> None:
        deploy(stack)  # for what it needs in place
        sections = {**settings(stack), **({} if verified else {"verification": {"enabled": False}})}
        recorded = run(lambda: GpuPlatform("gpu", sections))
        inside = [one for one in recorded.requests.values() if one.custom and one.type.startswith("kubernetes:")]
        assert len(inside) > 5
        assert [one.name for one in inside if "::gpu-kubernetes::" not in one.provider] == []
        assert stack == "byo" or [one.name for one in inside if not one.deletedWith.endswith("::gpu-cluster")] == []

    @pytest.mark.parametrize("stack", EACH)
    def test_the_protection_of_the_platform_is_undone_nowhere(self, run: Run, deploy: Any, stack: str) -> None:
        deploy(stack)
        recorded = run(lambda: GpuPlatform("gpu", settings(stack), pulumi.ResourceOptions(protect=True)))
        assert not [request.name for request in recorded.requests.values() if request.HasField("protect") and not request.protect]

    @pytest.mark.parametrize("stack", EACH)
    def test_no_credential_reaches_the_engine_in_plain_text(self, deploy: Any, stack: str) -> None:
        recorded = deploy(stack)
        assert recorded.is_secret("gpu-kubernetes", "kubeconfig")
        assert "very-secret-token" not in "".join(
            str(request) for request in recorded.requests.values() if request.type != "pulumi:providers:kubernetes"
        )

    @pytest.mark.parametrize("stack", these(["aks-prod", "magnum-prod"], ["magnum-prod"]))
    def test_production_is_protected_but_for_what_is_acknowledged(self, run: Run, stack: str) -> None:
        sections = settings(stack)
        plan = plan_config({f"{PREFIX}{key}": value for key, value in sections.items()})
        pools = [f"gpu-{pool.name}-{'pool' if stack == 'aks-prod' else 'group'}" for pool in plan.pools]
        for resource, change, left in (
            ("cluster", "c00000000", {"gpu-cluster", *pools}),
            (plan.pools[0].name, plan.pools[0].change, {"gpu-cluster", *pools[1:]}),
            ("cluster", plan.change, set()),
        ):
            acknowledged = [{"resource": resource, "change": change, "reason": "moved by hand"}]
            recorded = run(lambda acknowledged=acknowledged: GpuPlatform("gpu", {**sections, "acknowledged": acknowledged}))
            assert {request.name for request in recorded.requests.values() if request.protect} == left

    @pytest.mark.parametrize("stack", EACH)
    def test_objects_in_the_cluster_use_its_own_provider(self, deploy: Any, stack: str) -> None:
        recorded = deploy(stack)
        for request in recorded.requests.values():
            if request.type.startswith("kubernetes:"):
                assert "gpu-kubernetes" in request.provider, request.name

    @pytest.mark.parametrize("stack", ["aks-dev", "magnum-dev"])
    def test_what_is_in_a_cluster_of_ours_is_deleted_with_it(self, deploy: Any, stack: str) -> None:
        recorded = deploy(stack)
        own = [request for request in recorded.requests.values() if request.custom]
        inside = [r for r in own if r.type.startswith("kubernetes:") or r.type.endswith((":AgentPool", ":NodeGroup"))]
        assert {request.deletedWith.rpartition("::")[2] for request in inside} == {"gpu-cluster"}

    def test_an_existing_cluster_is_never_assumed_to_go_away(self, deploy: Any) -> None:
        assert not any(request.deletedWith for request in deploy("byo").requests.values())

    @pytest.mark.parametrize("stack", EACH)
    def test_each_declaration_is_a_resource_of_its_own(self, deploy: Any, stack: str) -> None:
        recorded = deploy(stack)
        kinds = (":Exclusive", ":TimeSlicing", ":Mps", ":Mig")
        found = {resource.name.removeprefix("gpu-") for resource in recorded.resources if resource.type.endswith(kinds)}
        assert found == set(settings(stack)["sharing"])


class TestAnOperatorThatIsThere:
    """Nothing of it is installed again; what the plan decides of it is."""

    @pytest.fixture
    def recorded(self, run: Run) -> Recorder:
        config = settings("magnum-prod")
        config["cluster"] = {**config["cluster"], "driver": "capi-helm", "labels": {}}
        adopted = {"operator": {"install": False}, "nodeFeatureDiscovery": {"install": False}}
        return run(lambda: GpuPlatform("gpu", {**config, **adopted}))

    def test_nothing_is_installed_and_no_namespace_of_its_owner_is_made(self, recorded: Recorder) -> None:
        assert not recorded.of(":Release")
        assert not {"gpu-operator-namespace", "gpu-nfd-namespace"} & {resource.name for resource in recorded.resources}

    def test_the_policy_is_changed_after_the_config_maps_and_before_the_pools(self, recorded: Recorder) -> None:
        policy = recorded.one(":ClusterPolicyPatch")
        assert policy.inputs["metadata"] == {"name": "cluster-policy", "annotations": {"pulumi.com/patchForce": "true"}}
        assert policy.inputs["spec"]["devicePlugin"]["config"]["name"] == "gpu-pools-device-plugin"
        assert "gpu-operator-device-plugin" in recorded.depends_on("gpu-operator-policy")
        for resource in (*recorded.of("NodeGroup"), *recorded.of("NodeFeatureRule")):
            assert "gpu-operator-policy" in recorded.depends_on(resource.name)


class TestMagnum:
    """The service loses one of two operations at once."""

    @pytest.mark.parametrize("stack", ["magnum-dev", "magnum-prod"])
    def test_each_node_group_waits_for_all_before_it(self, deploy: Any, stack: str) -> None:
        recorded = deploy(stack)
        names = [f"gpu-{pool['name']}-group" for pool in settings(stack)["pools"]]
        for number, name in enumerate(names):
            assert recorded.depends_on(name) & set(names) == set(names[:number])

    def test_nfd_sets_the_taints_where_the_driver_does_not(self, deploy: Any) -> None:
        recorded = deploy("magnum-prod")
        assert all(rule.inputs["spec"]["rules"][0]["taints"] for rule in recorded.of("NodeFeatureRule"))
        assert recorded.one("Release", "gpu-nfd-release").inputs["values"]["master"]["enableTaints"] is True

    def test_the_labeller_is_selected_by_the_label_of_the_driver(self, deploy: Any) -> None:
        selectors = [
            daemon_set.inputs["spec"]["template"]["spec"].get("nodeSelector")
            for daemon_set in deploy("magnum-dev").of("DaemonSet")
        ]
        assert {"magnum.openstack.org/nodegroup": "gpu-mig"} in selectors


class TestRefusals:
    """A wrong stack is refused with everything that is wrong, before anything is registered."""

    def wrong(self) -> Any:
        declared = settings("aks-dev")
        declared["pools"][0]["vmSzie"] = declared["pools"][0].pop("vmSize")
        declared["sharing"]["inference"]["mps"]["replicas"] = 49
        declared["poools"] = []
        return declared

    def test_all_problems_come_at_once_and_nothing_is_registered(self, run: Run) -> None:
        def program() -> None:
            with pytest.raises(InvalidStackError) as refused:
                GpuPlatform("gpu", self.wrong())
            paths = {problem.path for problem in refused.value.problems}
            assert {f"GpuPlatform(gpu).{key}" for key in ("poools", "pools[0].vmSzie", "sharing.inference.mps.replicas")} <= paths
            assert "problems in the arguments of GpuPlatform(gpu); nothing was created" in str(refused.value)
            assert "gpu-pools:" not in str(refused.value)

        assert run(program).resources == []

    def test_the_config_of_a_stack_file_can_be_handed_over_as_it_is(self, run: Run) -> None:
        config: Any = {f"{PREFIX}{key}": value for key, value in settings("aks-dev").items()}
        assert len(run(lambda: GpuPlatform("gpu", {**config, "azure-native:location": "westeurope"})).of("AgentPool")) == 4

    def test_a_section_that_is_given_twice_is_refused(self, run: Run) -> None:
        def program() -> None:
            with pytest.raises(InvalidStackError, match=r"GpuPlatform\(gpu\)\.pools: is given twice"):
                GpuPlatform("gpu", {**settings("aks-dev"), f"{PREFIX}pools": []})

        assert run(program).resources == []

    def test_an_incomplete_cluster_section_is_refused(self, run: Run) -> None:
        declared = settings("aks-dev")
        del declared["cluster"]["location"]

        def program() -> None:
            with pytest.raises(InvalidStackError, match=r"GpuPlatform\(gpu\)\.cluster\.location: is missing"):
                GpuPlatform("gpu", declared)

        run(program)


class TestProgram:
    """The program that the engine runs."""

    @pytest.fixture
    def configured(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
        def configure(declared: Any) -> None:
            texts = {f"{PREFIX}{key}": value if isinstance(value, str) else json.dumps(value) for key, value in declared.items()}
            monkeypatch.delenv("PULUMI_CONFIG", raising=False)
            runtime_config.set_all_config({**texts, "azure-native:location": "westeurope"}, [f"{PREFIX}operator"])

        yield configure
        runtime_config.set_all_config({}, [])

    def program(self) -> None:
        sys.path.insert(0, str(PROJECT))
        try:
            runpy.run_path(str(PROJECT / "__main__.py"))
        finally:
            sys.path.remove(str(PROJECT))

    def test_reads_all_keys_of_the_namespace_and_no_others(self, configured: Any) -> None:
        configured({"cluster": {"platform": "aks"}, "poools": [1], "operator": "text"})
        assert read_stack_config() == {"cluster": {"platform": "aks"}, "poools": [1], "operator": "text"}

    def test_deploys_the_stack(self, run: Run, configured: Any) -> None:
        configured(settings("aks-dev"))
        assert len(run(self.program).of("AgentPool")) == 4

    def test_shows_problems_without_a_traceback(self, run: Run, configured: Any) -> None:
        configured({"cluster": {"platform": "aws"}, "pools": "none"})

        def program() -> None:
            with pytest.raises(pulumi.RunError, match="in the stack file; nothing was created"):
                self.program()

        assert run(program).resources == []

    def test_is_short(self) -> None:
        assert len((PROJECT / "__main__.py").read_text().splitlines()) < 50

    def test_azure_is_loaded_only_where_it_is_used(self, deploy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        clouds = ("gpu_pools.components.aks.cluster", "gpu_pools.components.magnum.cluster")
        for name in clouds:
            monkeypatch.delitem(sys.modules, name, raising=False)
        deploy("byo")
        assert not set(clouds) & set(sys.modules)
