"""Settings of the verification, and the pods that do it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.proof.verifier_pods import expectation_file, verifier_daemon_set_spec
from gpu_pools.proof.verifier_start import start_command
from gpu_pools.stack.verification import DEFAULT_IMAGE, VerificationSettings, parse_verification
from gpu_pools.text.errors import InvalidStackError, Problems
from tests.unit.stacks import aks, existing, magnum, plan_of

PATH = "gpu-pools:verification"
SHA256 = "5" * 64
IMAGE = f"registry.example.com:5000/python:3.12@sha256:{SHA256}"
TAINTED = {"taints": ["example.com/team=a:NoExecute"]}


def parsed(value: object) -> VerificationSettings:
    problems = Problems()
    settings = parse_verification(value, PATH, problems)
    problems.raise_if_any()
    return settings


def pod_of(stack: str) -> Any:
    plan = plan_of(stack)
    return verifier_daemon_set_spec(plan, plan.pools[0], "program-1", SHA256)["template"]["spec"]


class TestSettings:
    def test_without_the_section_nothing_is_verified(self) -> None:
        assert not parsed(None).enabled

    def test_an_empty_section_verifies_with_defaults(self) -> None:
        assert parsed({}) == VerificationSettings(enabled=True, deadline_seconds=1200, interval_seconds=300, image=DEFAULT_IMAGE)

    def test_everything_can_be_said(self) -> None:
        given = {
            "enabled": True, "deadlineSeconds": 60, "intervalSeconds": 30, "image": IMAGE,
            "startupTaint": True,
        }  # fmt: skip
        wanted = VerificationSettings(
            enabled=True,
            deadline_seconds=60,
            interval_seconds=30,
            image=IMAGE,
            startup_taint=True,
        )
        assert parsed(given) == wanted

    @pytest.mark.parametrize(
        "image",
        ["python", "python:3.12", "python@sha256:ab", f"python@sha512:{SHA256}", f"py thon@sha256:{SHA256}", f"@sha256:{SHA256}"],
    )
    def test_attack_an_image_whose_bytes_may_change_is_refused(self, image: str) -> None:
        """Push another image under the same tag: it would run as root on every GPU node."""
        with pytest.raises(InvalidStackError, match=r"(?s)gpu-pools:verification\.image.*by digest.*imagetools inspect"):
            parsed({"image": image})

    def test_the_default_images_are_pinned(self) -> None:
        assert parsed({"image": DEFAULT_IMAGE}).image == DEFAULT_IMAGE


class TestExpectationFile:
    def test_it_holds_the_document_and_its_name_follows_the_text(self) -> None:
        plan = plan_of(aks())
        file = expectation_file(plan, plan.pools[0])
        assert json.loads(file.text) == node_expectation(plan, plan.pools[0])
        assert file.name == f"expectation-gpu-{hashlib.sha256(file.text.encode()).hexdigest()[:10]}"

    def test_another_declaration_is_another_name(self) -> None:
        plans = [plan_of(aks(sharing={"declared": {"timeSlicing": {"replicas": replicas}}})) for replicas in (4, 8)]
        first, second = (expectation_file(plan, plan.pools[0]).name for plan in plans)
        assert first != second

    def test_nothing_else_is_one(self) -> None:
        plans = [plan_of(aks(verification={"deadlineSeconds": seconds})) for seconds in (10, 20)]
        first, second = (expectation_file(plan, plan.pools[0]) for plan in plans)
        assert first == second


class TestPod:
    @pytest.mark.parametrize(
        ("stack", "selector"),
        [
            (aks(), {"kubernetes.azure.com/agentpool": "gpu"}),
            (magnum(), {"magnum.openstack.org/nodegroup": "gpu"}),
            (existing({"nodeSelector": {"zone": "b"}}), {"zone": "b"}),
        ],
    )
    def test_it_is_on_the_pools_nodes_only(self, stack: str, selector: dict[str, str]) -> None:
        assert pod_of(stack)["nodeSelector"] == selector

    def test_it_tolerates_what_the_operands_tolerate(self) -> None:
        tolerations = pod_of(aks(TAINTED))["tolerations"]
        assert tolerations == list(plan_of(aks(TAINTED)).tolerations)
        assert {"key": "example.com/team", "operator": "Exists", "effect": "NoExecute"} in tolerations

    @pytest.mark.parametrize(
        ("stack", "runtime_class"),
        [
            (aks(), "nvidia"),
            (aks({"driver": "preinstalled"}), "nvidia-container-runtime"),
            (existing({"driver": "preinstalled"}), "nvidia"),
        ],
    )
    def test_it_takes_the_runtime_of_the_device_plugin(self, stack: str, runtime_class: str) -> None:
        assert pod_of(stack)["runtimeClassName"] == runtime_class

    @pytest.mark.parametrize("sharing", [{"exclusive": {}}, {"mps": {"replicas": 4}}, {"mig": {"layout": {"1g.10gb": 7}}}])
    def test_it_asks_for_no_gpu_and_sees_all(self, sharing: Any) -> None:
        pod = pod_of(aks(sharing={"declared": sharing}))
        for container in (*pod["initContainers"], *pod["containers"]):
            resources = container["resources"]
            assert set(resources["requests"]) | set(resources["limits"]) == {"cpu", "memory"}
            environment = {entry["name"]: entry.get("value") for entry in container["env"]}
            assert environment["NVIDIA_VISIBLE_DEVICES"] == "all"

    @pytest.mark.parametrize("sharing", [{"exclusive": {}}, {"timeSlicing": {"replicas": 2}}, {"mps": {"replicas": 4}}])
    def test_without_mig_it_has_no_capability_and_sees_no_instances(self, sharing: Any) -> None:
        pod = pod_of(aks(sharing={"declared": sharing}))
        for container in (*pod["initContainers"], *pod["containers"]):
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            # The toolkit ends a container that has the one without the other.
            assert "NVIDIA_MIG_MONITOR_DEVICES" not in {entry["name"] for entry in container["env"]}

    def test_with_mig_it_has_the_one_capability_that_shows_instances(self) -> None:
        pod = pod_of(aks(sharing={"declared": {"mig": {"layout": {"1g.10gb": 7}}}}))
        for container in (*pod["initContainers"], *pod["containers"]):
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
            assert {"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"} in container["env"]

    def test_where_the_toolkit_gives_gpus_to_nobody_else_it_has_that_capability_too(self) -> None:
        env = [{"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "false"}]
        pod = pod_of(aks(operator={"values": {"toolkit": {"env": env}}}))
        assert pod["containers"][0]["securityContext"]["capabilities"]["add"] == ["SYS_ADMIN"]

    @pytest.mark.parametrize(
        ("name", "value", "wants"),
        [
            ("ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "False", True),
            ("ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "true", False),
            ("ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS", "false", False),
        ],
    )
    def test_any_other_setting_of_the_toolkit_gives_it_none(self, name: str, value: str, wants: bool) -> None:  # noqa: FBT001
        env = [{"name": name, "value": value}, {"name": "LAST", "value": "true"}]
        pod = pod_of(aks(operator={"values": {"toolkit": {"env": env}}}))
        assert ("add" in pod["containers"][0]["securityContext"]["capabilities"]) is wants

    def test_it_is_confined(self) -> None:
        for container in (*pod_of(aks())["initContainers"], *pod_of(aks())["containers"]):
            context = container["securityContext"]
            assert "privileged" not in context
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}

    @pytest.mark.parametrize(
        ("stack", "named"),
        [
            (aks(), True),
            (aks({"osSku": "Ubuntu2404"}), True),
            (aks({"osSku": "AzureLinux"}), False),
            (magnum(), False),
            (existing(), False),
        ],
    )
    def test_app_armor_is_named_where_the_nodes_are_known_to_have_it(self, stack: str, named: bool) -> None:  # noqa: FBT001
        """A kubelet without it would refuse the pod; one with it gives the same profile to whoever names none."""
        context = pod_of(stack)["containers"][0]["securityContext"]
        assert context.get("appArmorProfile") == ({"type": "RuntimeDefault"} if named else None)

    @pytest.mark.parametrize(("renamed", "resource"), [(False, "nvidia.com/gpu"), (True, "nvidia.com/gpu.shared")])
    def test_it_can_ask_the_mps_daemon(self, renamed: bool, resource: str) -> None:  # noqa: FBT001
        pod = pod_of(aks(sharing={"declared": {"mps": {"replicas": 4, "renameByDefault": renamed}}}))
        (volume,) = [one for one in pod["volumes"] if one.get("hostPath", {}).get("path") == "/run/nvidia/mps"]
        for container in (*pod["initContainers"], *pod["containers"]):
            environment = {entry["name"]: entry.get("value") for entry in container["env"]}
            assert environment["CUDA_MPS_PIPE_DIRECTORY"] == f"/run/nvidia/mps/{resource}/pipe"
            assert environment["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
            (mount,) = [one for one in container["volumeMounts"] if one["name"] == volume["name"]]
            assert mount["readOnly"]

    def test_of_the_node_only_the_list_of_processes_is_mounted_to_be_read(self) -> None:
        pod = pod_of(aks())
        (volume,) = [one for one in pod["volumes"] if "hostPath" in one]
        assert volume["hostPath"] == {"path": "/proc", "type": "Directory"}
        for container in (*pod["initContainers"], *pod["containers"]):
            (mount,) = [one for one in container["volumeMounts"] if one["name"] == volume["name"]]
            assert mount["readOnly"]
            assert container["args"][container["args"].index("--processes") + 1] == mount["mountPath"]
        assert "hostPID" not in pod

    def test_the_settings_reach_the_program(self) -> None:
        pod = pod_of(aks(verification={"deadlineSeconds": 77, "intervalSeconds": 33, "image": IMAGE}))
        (first,), (main,) = pod["initContainers"], pod["containers"]
        assert first["image"] == main["image"] == IMAGE
        assert first["args"][first["args"].index("--wait") + 1] == "77"
        assert main["args"][main["args"].index("--interval") + 1] == "33"

    def test_the_difference_is_what_kubernetes_keeps(self) -> None:
        (first,) = pod_of(aks())["initContainers"]
        assert first["args"][first["args"].index("--termination-log") + 1] == first["terminationMessagePath"]

    def test_program_and_expectation_are_where_they_are_mounted(self) -> None:
        plan = plan_of(aks())
        (container,) = pod_of(aks())["containers"]
        paths = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        sources = {one["name"]: one["configMap"]["name"] for one in pod_of(aks())["volumes"] if "configMap" in one}
        started = start_command(f"{paths['program']}/verifier.pyz", SHA256, container["terminationMessagePath"])
        assert container["command"] == started
        document = ["--expect", f"{paths['expectation']}/expectation.json"]
        document += ["--expect-sha256", expectation_file(plan, plan.pools[0]).sha256]
        assert container["args"][:5] == ["watch", *document]
        assert "--mark" in container["args"]
        assert sources == {"program": "program-1", "expectation": expectation_file(plan, plan.pools[0]).name}
