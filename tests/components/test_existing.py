"""Clusters that exist: which kubeconfig, which context, and that credentials stay secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from gpu_pools.components.existing.cluster import ExistingCluster, read_kubeconfig
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.text.errors import InvalidStackError

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    return path


def test_the_provider_gets_the_context_and_a_secret_kubeconfig(run: Run, kubeconfig: Path) -> None:
    recorded = run(lambda: ExistingCluster("c", {"kubeconfig": str(kubeconfig), "context": "byo"}))
    inputs = recorded.one("providers:kubernetes").inputs
    assert (inputs["context"], inputs["clusterIdentifier"]) == ("byo", "byo")
    assert recorded.is_secret("c-kubernetes", "kubeconfig")


def test_the_current_context_counts_where_none_is_named(kubeconfig: Path) -> None:
    assert read_kubeconfig(str(kubeconfig), None, "x")[1] == "other"


def test_the_first_file_of_KUBECONFIG_that_has_the_context_counts(  # noqa: N802 - a variable's name
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.write_text("contexts: [{name: elsewhere}]\ncurrent-context: elsewhere\n")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'gone'}:{other}:{kubeconfig}")
    assert read_kubeconfig(None, "byo", "x") == (KUBECONFIG, "byo")


def test_an_unknown_context_lists_those_that_there_are(kubeconfig: Path) -> None:
    with pytest.raises(InvalidStackError, match=r'no context "prod"(?s:.*)allowed: byo, other'):
        read_kubeconfig(str(kubeconfig), "prod", "x")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidStackError, match="cannot be read: No such file"):
        read_kubeconfig(str(tmp_path / "gone"), None, "x")


@pytest.mark.parametrize("text", ["[", "just text with hunter2", "contexts: [{user: hunter2}]"])
def test_a_file_that_is_no_kubeconfig_is_refused_without_quoting_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InvalidStackError, match="is not a kubeconfig") as refused:
        read_kubeconfig(str(path), None, "x")
    assert "hunter2" not in str(refused.value)


def test_the_content_of_a_kubeconfig_is_as_good_as_a_file(run: Run) -> None:
    recorded = run(lambda: ExistingCluster("c", {"kubeconfig_content": KUBECONFIG, "context": "byo"}))
    inputs = recorded.one("providers:kubernetes").inputs
    assert (inputs["kubeconfig"]["value"], inputs["context"], inputs["clusterIdentifier"]) == (KUBECONFIG, "byo", "byo")
    assert recorded.is_secret("c-kubernetes", "kubeconfig")


def test_a_content_that_a_preview_does_not_know_is_placed(run: Run) -> None:
    def program() -> None:
        made: list[Any] = [pulumi.CustomResource("test:index:Cluster", "made", {"kubeconfig": None})]
        later = made[0].id.apply(lambda _: KUBECONFIG)
        ExistingCluster("c", {"kubeconfig_content": later})

    recorded = run(program, preview=True)
    inputs = recorded.one("providers:kubernetes").inputs
    # Without a context of its own the provider takes the current one; what tells the cluster from others stays the same.
    assert (inputs["clusterIdentifier"], inputs.get("context")) == ("c", None)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"kubeconfig_content": KUBECONFIG, "kubeconfig": "/etc/k"}, "kubeconfigContent: stands beside `kubeconfig`"),
        ({"kubeconfig_content": 4}, "kubeconfigContent: is not a text"),
        ({"kubeconfig_content": KUBECONFIG, "context": "prod"}, 'no context "prod"'),
    ],
)
def test_what_is_wrong_with_a_content_is_told_without_quoting_it(run: Run, args: Any, said: str) -> None:
    def program() -> None:
        with pytest.raises(InvalidStackError) as refused:
            ExistingCluster("c", args)
        assert said in str(refused.value)
        assert "very-secret-token" not in str(refused.value)

    assert run(program).resources == []


@pytest.mark.parametrize("platform", [False, True])
def test_a_kubernetes_provider_of_the_options_is_used_as_it_is(run: Run, *, platform: bool) -> None:
    def program() -> None:
        own = kubernetes.Provider("own", kubeconfig=KUBECONFIG)
        options = pulumi.ResourceOptions(providers=[own])
        if not platform:
            assert ExistingCluster("c", {}, options).kubernetes is own
            return
        pool = {"name": "a", "nodeSelector": {"gpu": "a"}, "gpuModel": "a100-80gb", "gpusPerNode": 1, "sharing": "whole"}
        GpuPlatform(
            "gpu", {"cluster": {"platform": "existing"}, "sharing": {"whole": {"exclusive": {}}}, "pools": [pool]}, options
        )

    recorded = run(program)
    assert [one.name for one in recorded.of("providers:kubernetes")] == ["own"]
    inside = [one for one in recorded.requests.values() if one.custom and one.type.startswith("kubernetes:")]
    assert [one.name for one in inside if "::own::" not in one.provider] == []
