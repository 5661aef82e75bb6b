"""docs/reference/rights.md says what every identity may do; derived here from the objects that a stack registers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.components.platform import GpuPlatform
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.verifier_pods import METRICS_LABEL
from gpu_pools.rendering.node_leaving import hook_objects

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from .conftest import Recorder

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "rights.md"
#: Filled in by Helm.
_RELEASED: Final = "{{ .Release.Namespace }}"
MARK: Final = "<!-- made by tests/components/test_rights.py, which says how where it differs -->\n"
CONFIG: Final[dict[str, Any]] = {
    "cluster": {"platform": "existing", "context": "byo"},
    "sharing": {
        "parted": {"mig": {"layout": {"1g.10gb": 7}}},
        "served": {"mps": {"replicas": 2}},
        "whole": {"exclusive": {}},
        "claimed": {"timeSlicing": {"replicas": 2}},
    },
    "pools": [
        {"name": name, "nodeSelector": {"p": name}, "gpuModel": model, "gpusPerNode": 1, "sharing": name}
        | ({"rollout": {}} if name == "parted" else {})
        | ({"allocation": "dra"} if name == "claimed" else {})
        for name, model in (
            ("parted", "NVIDIA A100-SXM4-80GB"),
            ("served", "NVIDIA A10"),
            ("whole", "NVIDIA A10"),
            ("claimed", "NVIDIA A10"),
        )
    ],
    "verification": {"smokeTest": True},
}


@pytest.fixture
def deployed(run: Callable[..., Recorder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    settings: Any = CONFIG
    return run(lambda: GpuPlatform("gpu", settings))


def objects(recorded: Recorder) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(kind, object) of what is registered, and of what goes to the operator's release as extra objects."""
    for one in recorded.resources:
        if one.type.startswith("kubernetes:"):
            yield one.type.rpartition(":")[2], one.inputs
    for extra in hook_objects(plan_config({f"gpu-pools:{key}": value for key, value in CONFIG.items()}).settings):
        yield extra["kind"], extra


def rights(found: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, str, str, str]]:
    """(identity, verbs, resources, where), by the bindings."""
    everything = list(found)
    granted = {
        (kind, one["metadata"].get("namespace", ""), one["metadata"]["name"]): one["rules"]
        for kind, one in everything
        if kind in {"ClusterRole", "Role"}
    }
    for kind, one in everything:
        if kind not in {"ClusterRoleBinding", "RoleBinding"}:
            continue
        where = one["metadata"].get("namespace", "")
        role = one["roleRef"]
        for subject in one["subjects"]:
            for rule in granted[role["kind"], where if role["kind"] == "Role" else "", role["name"]]:
                names = (
                    f" `{', '.join(rule['resourceNames'])}`".replace(_RELEASED, "gpu-operator")
                    if rule.get("resourceNames")
                    else ""
                )
                what = ", ".join(rule["resources"]) + names
                yield (
                    f"{subject['namespace'].replace(_RELEASED, 'gpu-operator')}/{subject['name']}",
                    ", ".join(rule["verbs"]),
                    what,
                    where.replace(_RELEASED, "gpu-operator") or "cluster",
                )


def confinement(found: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, str, str, str]]:
    """(workload, identity, capabilities, folders of the node) of every pod template."""
    for kind, one in found:
        if kind not in {"DaemonSet", "Job"}:
            continue
        spec = one["spec"]["template"]["spec"]
        paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec.get("volumes") or [] if "hostPath" in volume}
        every = [*(spec.get("initContainers") or []), *spec["containers"]]
        added = sorted({name for c in every for name in (c.get("securityContext", {}).get("capabilities") or {}).get("add", [])})
        read_only = {m["name"] for c in every for m in c.get("volumeMounts") or [] if m.get("readOnly")}
        told = [f"`{path}`{'' if name in read_only else ' to write'}" for name, path in sorted(paths.items())]
        named = f"{one['metadata'].get('namespace', 'gpu-operator')}/{re.sub(r'-[0-9a-f]{10}$', '', one['metadata']['name'])}"
        account = spec.get("serviceAccountName") if spec.get("automountServiceAccountToken") is not False else None
        yield f"{kind} {named}", account or "no token", ", ".join(added) or "none", ", ".join(told) or "none"


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *sorted(set(rows))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(recorded: Recorder) -> str:
    found = list(objects(recorded))
    return "\n".join(
        [
            "\n## In the API\n",
            table(("identity", "verbs", "resources", "where"), rights(found)),
            "\n## On the nodes\n",
            table(("workload", "token of", "capabilities added", "folders of the node"), confinement(found)),
            "",
        ]
    )


def test_the_page_has_the_rights_of_every_identity(deployed: Recorder) -> None:
    head, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    wanted = head + MARK + page(deployed)
    assert PAGE.read_text(encoding="utf-8") == wanted, f"write it anew:\n{wanted}"


def test_nobody_may_read_a_secret_or_everything(deployed: Recorder) -> None:
    for _, verbs, resources, _ in rights(objects(deployed)):
        assert "*" not in verbs + resources
        assert "secret" not in resources
        assert not {"escalate", "bind", "impersonate"} & set(verbs.split(", "))


def test_only_pools_with_mig_have_a_capability(deployed: Recorder) -> None:
    found = {name: added for name, _, added, _ in confinement(objects(deployed)) if "verifier" in name}
    assert set(found.values()) == {"none", "SYS_ADMIN"}
    assert [name for name, added in found.items() if added != "none"] == [
        "DaemonSet gpu-pools-verifier/gpu-pools-verifier-parted"
    ]


def test_the_verifiers_listen_to_nobody_but_who_scrapes(deployed: Recorder) -> None:
    """A kubelet reaches the pods of its node in any case; every pod of the namespace is closed to others."""
    (policy,) = [one for kind, one in objects(deployed) if kind == "NetworkPolicy"]
    assert policy["metadata"]["namespace"] == "gpu-pools-verifier"
    assert policy["spec"]["podSelector"] == {}
    (rule,) = policy["spec"]["ingress"]
    key, value = METRICS_LABEL
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {key: value}}}]
    assert [port["port"] for port in rule["ports"]] == [9409]
