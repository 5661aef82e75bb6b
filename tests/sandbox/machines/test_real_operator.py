"""The place of a real GPU operator: what it is run with, and what its end is. Any program can stand there; the real one is held
to test_operator_on_nodes.py where it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.cluster.gpu_host import obstacle
from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from sandbox.system import processes
from sandbox.toolchain import gpu_operator
from tests.sandbox.machines.site import OPERATOR, OPERATOR_ENV, Site, running, workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.programs,
    pytest.mark.sweep,
    pytest.mark.skipif(obstacle() is not None, reason=f"no mount namespaces here: {obstacle()}"),
]

#: Says what it was run with, asks the API server who it is, and ends when it is told to by a file.
PROGRAM = """#!/bin/sh
echo '{"msg":"version: v26.7.0, commit: 0"}' >&2
[ -n "$OPERATOR_NAMESPACE" ] || exit 1
echo "$@" > FOLDER/arguments
echo "$OPERATOR_NAMESPACE $GIVEN" > FOLDER/variables
cat /opt/gpu-operator/state-device-plugin/0500_daemonset.yaml > FOLDER/asset
kubectl auth whoami -o json > FOLDER/who 2>&1
echo it runs
while [ ! -e FOLDER/end ]; do sleep 0.1; done
rm FOLDER/end
echo it has ended of itself
exit 3
"""
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{OPERATOR}/deployments"


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the program leaves what it saw."""
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def site(notes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("image")
    program, asset = root / "usr/bin/gpu-operator", root / "opt/gpu-operator/state-device-plugin/0500_daemonset.yaml"
    for path, text in ((program, PROGRAM.replace("FOLDER", str(notes))), (asset, "kind: DaemonSet\n")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
    folder = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(gpu_operator.VARIABLE, str(root))
        with running(folder) as here:
            put(folder, MachineGroup("system", "system", 1, Hardware(4, 16)))
            here.api.create("/api/v1/namespaces", {"metadata": {"name": OPERATOR}})
            given = [*OPERATOR_ENV, {"name": "GIVEN", "value": "by the chart"}]
            body: dict[str, Any] = workload("Deployment", "gpu-operator", OPERATOR, "gpu-operator", env=given)
            container = body["spec"]["template"]["spec"]["containers"][0]
            container["args"] = ["--leader-elect", "--zap-log-level=info"]
            here.api.create(DEPLOYMENTS, body)
            here.until(lambda: status(here).get("ready"))
            yield here


def status(site: Site) -> dict[str, Any]:
    pods = site.pods("gpu-operator", "system0")
    found: list[dict[str, Any]] = pods[0].get("status", {}).get("containerStatuses", []) if pods else []
    return found[0] if found else {}


def test_it_has_what_the_pod_says_and_is_whom_the_pod_is(site: Site, notes: Path) -> None:
    site.until(lambda: (notes / "who").exists() and (notes / "who").read_text().startswith("{"))
    assert (notes / "arguments").read_text().split() == [
        "--zap-log-level=info", "--metrics-bind-address=0", "--health-probe-bind-address=0",
    ]  # fmt: skip
    assert (notes / "variables").read_text() == f"{OPERATOR} by the chart\n"
    assert (notes / "asset").read_text() == "kind: DaemonSet\n"
    user = json.loads((notes / "who").read_text())["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{OPERATOR}:default"
    (pod,) = site.pods("gpu-operator", "system0")
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == [pod["metadata"]["name"]]


def test_its_end_is_the_end_of_its_container_which_starts_again(site: Site, notes: Path) -> None:
    before = status(site)["restartCount"]
    (notes / "end").touch()
    site.until(lambda: status(site)["restartCount"] > before)
    ended = status(site)["lastState"]["terminated"]
    # Only a container that asks for it (terminationMessagePolicy) has its last words in its status; they are in its log.
    assert (ended["reason"], ended.get("message")) == ("Error", None)
    assert ended["exitCode"] != 0
    (log,) = (site.folder / "machines" / "system0" / "logs").glob(f"{OPERATOR}_gpu-operator-*/*.log")
    assert "it has ended of itself" in log.read_text()
    site.until(lambda: status(site)["ready"])


def test_it_ends_with_its_pod(site: Site) -> None:
    assert "gpu-operator" in processes.running(site.folder)
    site.api.patch(f"{DEPLOYMENTS}/gpu-operator", {"spec": {"replicas": 0}})
    site.until(lambda: "gpu-operator" not in processes.running(site.folder))
