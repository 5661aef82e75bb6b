"""Attacks of whoever sends a file of outputs, on the machine of whoever looks at it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.cli.main import main
from tests.evidence.fleets import fleet

if TYPE_CHECKING:
    from pathlib import Path


def looked_at(folder: Path, user: Any, *more: str) -> int:
    """Look at outputs whose kubeconfig has this user, or is this text; the exit code."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "byo",
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "byo", "context": {"cluster": "a", "user": "a"}}],
    }
    text = user if isinstance(user, str) else yaml.safe_dump(config)
    outputs = folder / "outputs.json"
    outputs.write_text(json.dumps({**fleet().outputs, "kubeconfig": text}), encoding="utf-8")
    return main(["evidence", "--outputs", str(outputs), *more])


def program(folder: Path) -> dict[str, Any]:
    """A log-in that leaves a file."""
    command = {"command": "touch", "args": [str(folder / "ran")], "interactiveMode": "Never"}
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **command}}


def test_a_file_of_outputs_has_a_program_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Review 9: the kubeconfig in a file that was sent names a program to log in with."""
    assert looked_at(tmp_path, program(tmp_path)) == 2
    assert not (tmp_path / "ran").exists()
    said = capsys.readouterr().err
    assert "user.exec" in said
    assert "--trust-outputs" in said


def test_who_trusts_the_file_logs_in_with_its_program(tmp_path: Path) -> None:
    """What worked goes on working, once it is asked for."""
    looked_at(tmp_path, program(tmp_path), "--trust-outputs")
    assert (tmp_path / "ran").exists()


def test_a_file_of_outputs_has_a_token_of_entra_id_sent_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log-in by kubelogin, whose token is good for every AKS cluster of the reader, and a server of the sender's."""
    args = ["get-token", "--server-id", "6dae42f8-4368-4678-94ff-3960e28e3630", "--login", "azurecli"]
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "kubelogin", "args": args}}
    assert looked_at(tmp_path, user) == 2
    assert "user.exec" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (None, "getting credentials: kubelogin is not installed. Install kubelogin, or log in (az login"),
        (
            "echo 'Error: Please run az login' >&2; exit 1",
            "kubelogin failed: exec: process returned 1. Error: Please run az login. Install kubelogin",
        ),
    ],
)
def test_a_log_in_that_fails_is_told_with_its_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, program: str | None, told: str
) -> None:
    """Its last words may be about where to read of plugins."""
    (tmp_path / "bin").mkdir()
    if program:
        (tmp_path / "bin" / "kubelogin").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "bin" / "kubelogin").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    login = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "kubelogin", "installHint": "read on elsewhere"}
    assert looked_at(tmp_path, {"exec": {**login, "args": ["get-token"]}}, "--trust-outputs") == 2
    assert told in capsys.readouterr().out


@pytest.mark.parametrize("key", ["tokenFile", "client-key", "client-certificate", "auth-provider", "EXEC"])
def test_a_file_of_outputs_has_other_files_read(tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A token from a file of the reader's goes to the sender's server; whatever is not known is not let through."""
    assert looked_at(tmp_path, {key: str(tmp_path / "secret")}) == 2
    assert f"user.{key}" in capsys.readouterr().err


def test_a_program_hides_behind_yaml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second of two equal keys, an alias, an escape: what was checked is used, and nothing else."""
    run = json.dumps(program(tmp_path))
    head = "apiVersion: v1\nkind: Config\nclusters: []\n"
    for users in (
        f"users: [{{name: a, user: {{}}}}]\nusers: [{{name: a, user: {run}}}]\n",
        f"extensions: &hidden {run}\nusers: [{{name: a, user: *hidden}}]\n",
        f'users: [{{name: a, user: {{"\\x65xec": {run}}}}}]\n',
    ):
        assert looked_at(tmp_path, head + users) == 2
        assert "kubeconfig in the outputs" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
