"""Clusters that exist: which kubeconfig, which context, and that credentials stay secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from components.existing import ExistingCluster, read_kubeconfig
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
