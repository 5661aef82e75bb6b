"""The command line: where outputs and credentials come from, what the cluster is asked, exit codes, what is left behind."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.cli.main import main
from gpu_pools.proof.verifier_reports import no_reports
from sandbox.system.patience import Patience
from tests.api_server import ApiServer, Refusal, kubeconfig
from tests.evidence.fleets import NOW, broken, fleet, put_report, text_of
from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.evidence.fleets import Fleet

ROOT = Path(__file__).parents[2]
LONGEST_WAIT = 60
SECRET = "very-secret-token"  # noqa: S105


class Site:
    """A folder to run the command in, and a cluster that answers it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.server = ApiServer()
        self.put(fleet(2))

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    @property
    def kubeconfig(self) -> str:
        """That of the cluster, whose context has to be chosen."""
        config = yaml.safe_load(kubeconfig(self.server.server_address[1], "byo", user={"token": SECRET}))
        return str(yaml.safe_dump({**config, "current-context": "none"}))

    def put(self, seen: Fleet, **outputs: str) -> None:
        """Now is now for the program: its reports have to be of now."""
        nodes = json.dumps(seen.nodes)
        past, now = text_of(NOW).removesuffix("12:00:00Z"), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        nodes = re.sub(rf"{past}\d\d:\d\d:\d\dZ", now, nodes)
        self.server.items["nodes"] = json.loads(nodes)
        maps = [{"metadata": {"name": name}, "data": data} for name, data in seen.config_maps.items()]
        self.server.items["configmaps"] = [*maps, {"metadata": {"name": "binary"}}]
        self.outputs = json.dumps({**seen.outputs, "kubeconfig": self.kubeconfig, **outputs})

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        # Unbuffered, Python itself does not tell that a pipe's reader has gone.
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            "PYTHONPATH": str(ROOT),
            "PATH": str(self.programs),
            "TMPDIR": str(self.temporary),
            "PYTHONIOENCODING": "utf-8",
        }
        return subprocess.Popen(
            [sys.executable, "-m", "gpu_pools", "evidence", *map(str, arguments)],
            cwd=self.folder,
            env=environment,
            text=True,
            encoding="utf-8",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )

    def run(self, *arguments: object) -> tuple[int, str, str]:
        """(exit code, output, errors); the outputs are on the standard input."""
        with self.start(*arguments) as process:
            out, err = process.communicate(self.outputs, timeout=scaled(LONGEST_WAIT))
        return self.checked(process.returncode, out, err)

    def call(self, *arguments: object) -> tuple[int, str, str]:
        """The same without a process of its own, which takes most of the time."""
        streams = {"stdin": io.StringIO(self.outputs), "stdout": io.StringIO(), "stderr": io.StringIO()}
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(self.folder)
            patched.setenv("PATH", str(self.programs))
            patched.setenv("KUBECONFIG", str(self.folder / "mine"))
            patched.setattr(tempfile, "tempdir", str(self.temporary))
            for name, stream in streams.items():
                patched.setattr(sys, name, stream)
            try:
                code = main(["evidence", *map(str, arguments)])
            except SystemExit as error:
                code = int(str(error.code))
        return self.checked(code, streams["stdout"].getvalue(), streams["stderr"].getvalue())

    def checked(self, code: int, out: str, err: str) -> tuple[int, str, str]:
        assert SECRET not in out + err
        assert "Traceback" not in err
        assert list(self.temporary.iterdir()) == []
        return code, out, err


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_proven_fleet_is_shown_written_and_ends_with_0(site: Site) -> None:
    code, out, err = site.run("--outputs", "-", "--json", "e.json", "--html", "e.html")
    assert (code, out.splitlines()[-1]) == (0, "6 nodes: 6 proven"), err
    assert json.loads((site.folder / "e.json").read_text())["verdict"] == "proven"
    assert (site.folder / "e.html").read_text().startswith("<!DOCTYPE html>")
    assert "\x1b" not in out + err
    # Two lists for a fleet of any size, with the credentials of the outputs and the context that was declared.
    assert site.server.collections == ["/api/v1/nodes", "/api/v1/namespaces/gpu-pools-verifier/configmaps"]
    assert {one["authorization"] for one in site.server.headers} == {f"Bearer {SECRET}"}


def test_json_goes_to_the_output_alone_where_it_is_asked_for_there(site: Site) -> None:
    code, out, err = site.call("--outputs", "-", "--json", "-")
    assert (code, json.loads(out)["exitCode"]) == (0, 0)
    assert "6 nodes: 6 proven" in err


def test_a_difference_ends_with_1_and_names_cause_and_remedy(site: Site) -> None:
    seen = fleet()
    put_report(seen.node("mig"), *broken("mig", "mig-0"))
    site.put(seen)
    code, out, _ = site.call("--outputs", "-")
    assert code == 1
    assert "differs: " in out
    assert "remedy: " in out


def test_an_empty_pool_ends_with_3(site: Site) -> None:
    seen = fleet()
    seen.nodes.remove(seen.node("mig"))
    site.put(seen)
    assert site.call("--outputs", "-")[0] == 3


@pytest.mark.parametrize(
    ("kind", "answer", "told"),
    [
        ("nodes", Refusal(500, "no leader\x1b[2J"), "no leader\\x1b[2J"),
        ("nodes", Refusal(403, 'nodes is forbidden: User "a" cannot list resource "nodes"'), "for the right to list nodes"),
        (
            "configmaps",
            Refusal(403, "configmaps is forbidden"),
            "list configmaps in the namespace gpu-pools-verifier",
        ),
        ("nodes", Refusal(401, "Unauthorized"), "Log in again"),
    ],
)
def test_what_the_cluster_does_not_tell_ends_with_2_in_its_own_words(site: Site, kind: str, answer: Refusal, told: str) -> None:
    site.server.items[kind] = answer
    code, out, _ = site.call("--outputs", "-", "--json", "e.json")
    assert code == 2
    assert told in out
    assert answer.message.partition("\x1b")[0] in out
    assert json.loads((site.folder / "e.json").read_text())["verdict"] == "cannot tell"


def test_a_cluster_that_cannot_be_reached_ends_with_2(site: Site) -> None:
    site.put(fleet(), kubeconfig=kubeconfig(1, "byo"))
    code, out, _ = site.call("--outputs", "-")
    assert (code, "http://127.0.0.1:1 cannot be reached" in out) == (2, True)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"items": 1}', b'{"items": [1, {}, {"metadata": 1, "status": []}]}'])
def test_an_answer_that_is_no_list_of_nodes_proves_nothing(site: Site, text: bytes) -> None:
    site.server.items |= {"nodes": text, "configmaps": text}
    assert site.call("--outputs", "-")[0] == 2


def test_own_credentials_take_the_place_of_those_in_the_outputs(site: Site) -> None:
    site.put(fleet(), kubeconfig="[secret]")
    port = site.server.server_address[1]
    (site.folder / "own").write_text(kubeconfig(port, user={"token": "own"}))
    (site.folder / "mine").write_text(kubeconfig(port, "d", "c", user={"token": "mine"}))
    assert site.call("--outputs", "-", "--kubeconfig", site.folder / "own")[0] == 0
    assert site.call("--outputs", "-", "--context", "c")[0] == 0
    assert [one["authorization"] for one in site.server.headers] == ["Bearer own"] * 2 + ["Bearer mine"] * 2
    code, out, _ = site.call("--outputs", "-", "--context", "x")
    assert (code, "no context x. Its contexts are: d, c" in out) == (2, True)


@pytest.mark.parametrize("kubeconfig", ["[secret]", "", "no kubeconfig"])
def test_outputs_without_credentials_say_what_to_do(site: Site, kubeconfig: str) -> None:
    site.put(fleet(), kubeconfig=kubeconfig)
    code, out, err = site.call("--outputs", "-")
    assert (code, out) == (2, "")
    assert "--show-secrets" in err
    assert site.server.asked == []


def test_a_stack_is_asked_of_the_engine_with_secrets_only_where_they_are_needed(site: Site) -> None:
    script = f"#!{sys.executable}\nimport pathlib, sys\nhere = pathlib.Path(__file__).parent\n"
    script += "(here / 'asked').write_text(' '.join(sys.argv[1:]))\nsys.stdout.write((here / 'outputs').read_text())\n"
    site.program("pulumi", script)
    (site.programs / "outputs").write_text(site.outputs)
    (site.folder / "mine").write_text(kubeconfig(site.server.server_address[1], "c"))
    asked = site.programs / "asked"
    assert site.call("prod")[0] == 0
    assert asked.read_text() == "stack output --json --non-interactive --stack prod --show-secrets"
    assert site.call("prod", "--context", "c")[0] == 0
    assert "--show-secrets" not in asked.read_text()


def test_an_engine_that_fails_is_quoted_and_its_outputs_are_not(site: Site) -> None:
    script = f"#!{sys.executable}\nimport sys\nprint({SECRET!r})\nsys.exit('error: no stack named x\\n found')\n"
    site.program("pulumi", script)
    code, out, err = site.call("x")
    assert (code, out) == (2, "")
    assert "error: no stack named x found" in err


def test_what_is_not_there_is_named(site: Site) -> None:
    code, _, err = site.call("x")
    assert (code, "There is no pulumi on PATH" in err) == (2, True)
    code, out, _ = site.call("--outputs", "-", "--context", "c")
    assert (code, "there is no kubeconfig" in out) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [(), ("a", "--outputs", "-"), ("--outputs", "gone.json"), ("--outputs", "."), ("--outputs", "-", "--html", "no/x")],
)
def test_what_is_asked_wrongly_ends_with_2(site: Site, arguments: tuple[str, ...]) -> None:
    assert site.call(*arguments)[0] == 2


@pytest.mark.parametrize("outputs", ["", "{", "[1]", "{}", json.dumps({"verification": no_reports()})])
def test_outputs_that_tell_nothing_end_with_2(site: Site, outputs: str) -> None:
    site.outputs = outputs
    code, out, err = site.call("--outputs", "-")
    assert (code, out) == (2, "")
    assert "cannot tell: " in err


def test_a_file_that_cannot_be_written_leaves_no_half_of_it_and_no_pass(site: Site) -> None:
    (site.folder / "e.json").mkdir()
    code, _, err = site.call("--outputs", "-", "--json", "e.json")
    assert code == 2
    assert "e.json cannot be written" in err
    assert not [path for path in site.folder.iterdir() if path.name.startswith(".e.json")]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_leaves_no_credentials_behind(site: Site, number: int, code: int) -> None:
    site.server.is_silent = True
    with site.start("--outputs", "-", start_new_session=True) as process:
        assert process.stdin
        process.stdin.write(site.outputs)
        process.stdin.close()
        end = Patience(LONGEST_WAIT)
        while not site.server.asked:
            assert not end.is_over()
            time.sleep(0.05)
        assert len(list(site.temporary.iterdir())) == 1
        # As a terminal's Ctrl-C: to a log-in program, too. Nothing answers, and it ends at once all the same.
        os.killpg(process.pid, number)
        assert process.wait(scaled(10)) == code
        assert process.stderr
        assert "Traceback" not in process.stderr.read()
    assert list(site.temporary.iterdir()) == []


def test_a_reader_that_goes_away_is_no_pass(site: Site) -> None:
    site.put(fleet(100))
    with site.start("--outputs", "-", "--json", "-") as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(site.outputs)
        process.stdin.close()
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(scaled(LONGEST_WAIT)) == 141
