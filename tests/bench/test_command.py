"""``gpu-pools bench`` as a program: on a machine without a GPU, and with programs that answer as NVIDIA's did on an H200."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from gpu_pools.bench import clients, machine, mps
from gpu_pools.bench.machine import NoGpu
from sandbox.system.patience import Patience
from tests.api_server import ApiServer, Refusal
from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "docs" / "measured" / "h200-mps.json"
#: What nvidia-smi 580.159.04 answers on a machine with two GPUs; of -L with MIG its manual's form.
SMI = """#!/bin/sh
case "$*" in
  *--id=7*) echo "No devices were found"; exit 6 ;;
  -L) [ -z "$SLICED" ] || echo "GPU 0: NVIDIA H200 (UUID: GPU-0)"; echo "GPU 1: NVIDIA H200 (UUID: GPU-1)"
      [ -z "$SLICED" ] || echo "  MIG 1g.18gb     Device  0: (UUID: MIG-a)"
      [ -z "$SLICED" ] || echo "  MIG 1g.18gb     Device  1: (UUID: MIG-b)" ;;
  -L*) echo "ERROR: Option $2 is not valid for this command."; exit 2 ;;
  *query-gpu=index*) echo "1, GPU-1, NVIDIA H200, 143771, 580.159.04, 96.00.A5, 00000000:00:06.0, 700.00" ;;
  *query-gpu=compute_mode*) echo "$(cat "$MODE"), Disabled, Enabled, Enabled, 700.00, [N/A], [N/A], 1980" ;;
  *query-gpu=temperature*) echo "37, 80.00, 345, 3201, 0x0000000000000001, 0" ;;
  *query-gpu=memory.used*) echo 0 ;;
  *) echo "| NVIDIA-SMI 580.159.04   Driver Version: 580.159.04   CUDA Version: 13.0     |" ;;
esac
"""
#: `-d` leaves a pipe named control, which goes with `quit`; commands come by standard input.
CONTROL = """#!/bin/sh
pipe=$CUDA_MPS_PIPE_DIRECTORY/control
if [ "$1" = -d ]; then : > "$pipe"; echo "started $CUDA_VISIBLE_DEVICES" >> "$HEARD"; exit "${REFUSES:-0}"; fi
read line
echo "$line" >> "$HEARD"
[ "$line" != quit ] || rm "$pipe"
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """NVIDIA's programs, on PATH."""
    for name, text in (("nvidia-smi", SMI), ("nvidia-cuda-mps-control", CONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "mode").write_text("Default")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("MODE", str(tmp_path / "mode"))
    monkeypatch.setenv("HEARD", str(tmp_path / "heard"))
    return tmp_path


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpu_pools", "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_without_a_gpu_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = bench()
    assert (done.returncode, done.stdout) == (1, "")
    assert "neither PyTorch for" in done.stderr
    assert "nor nvcc on PATH" in done.stderr
    with pytest.raises(NoGpu, match="is not on PATH: run this on a machine with an NVIDIA GPU"):
        machine.Smi("0").machine()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--replicas", "8"], "--replicas limits clients of MPS: it needs --mps."),
        (["--kinds", "compute,graphics"], "'graphics': no such kinds; there are compute, memory, launches, inference, training"),
        (["--clients", "1,0"], "'0': a number from 1 to 48 is needed"),
        (["--parts", "all"], "'all': no such parts; there are throughput, neighbours, faults"),
        (["--show", "README.md"], "README.md: is not JSON"),
        (["--against", "nowhere.json"], "No such file or directory: 'nowhere.json'"),
        (["--json", "/nowhere/mine.json"], "--json /nowhere/mine.json: there is no folder /nowhere."),
        (["--mps", "--job", "x"], "--mps starts a daemon on this machine; a pool's pods share as the pool says."),
        (["--backend", "opencl"], "invalid choice: 'opencl'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_started(arguments: Sequence[str], told: str) -> None:
    done = bench("--backend", "sleeper", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_a_measurement_is_shown_written_and_drawn(tmp_path: Path) -> None:
    file, picture = tmp_path / "mine.json", tmp_path / "mine.svg"
    options = ("--quick", "--kinds", "inference", "--clients", "1,2", "--parts", "throughput")
    done = bench("--backend", "sleeper", *options, "--json", str(file), "--svg", str(picture))
    assert done.returncode == 0, done.stderr
    assert "• inference: 2 clients\n" in done.stderr
    assert [(row["kind"], row["clients"]) for row in json.loads(file.read_text())["rows"]] == [("inference", 1), ("inference", 2)]
    assert "Throughput of all clients together" in done.stdout
    assert picture.read_text().startswith("<svg ")
    again = bench("--show", str(file), str(MEASURED), "--against", str(MEASURED), "--markdown")
    assert again.returncode == 0
    assert "| inference | 8 | 1,453 | 1,453 | +0 % |" in again.stdout
    assert "Throughput of all clients together, of one that has the GPU to itself:" in again.stdout


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ended_early_it_leaves_no_client_and_what_it_has_in_the_file(tmp_path: Path, how: signal.Signals) -> None:
    file = tmp_path / "mine.json"
    command = [sys.executable, "-m", "gpu_pools", "bench", "--backend", "sleeper", "--clients", "1,2,4", "--json", str(file)]
    started = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    end = Patience(60)
    while not file.exists() and not end.is_over():
        time.sleep(0.1)
    # As `kill` does: to the program alone.
    started.send_signal(how)
    _, said = started.communicate(timeout=scaled(30))
    assert started.returncode == 128 + how
    assert "Traceback" not in said
    assert len(json.loads(file.read_text())["rows"]) >= 1
    assert [path for path in tmp_path.iterdir() if path != file] == []
    assert gone(started.pid, seconds=10), "a client goes on"


def gone(group: int, seconds: float) -> bool:
    """Whether nothing of a group of processes is left; one that has ended is there until its parent, or init, has heard of it."""
    end = Patience(seconds)
    while not end.is_over():
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_a_machine_is_read_from_nvidia_smi(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del programs
    found = machine.Smi("1").machine()
    assert (found.gpu["uuid"], found.gpu["memory.total"], found.gpu["driver_version"]) == ("GPU-1", "143771", "580.159.04")
    assert (found.system["cuda"], found.mig) == ("13.0", ())
    assert machine.Smi("1").settings()["mig.mode.current"] == "Disabled"
    assert machine.Smi("1").used_mib() == 0
    monkeypatch.setenv("SLICED", "yes")
    assert machine.Smi("1").machine().mig == ("MIG-a", "MIG-b")
    with pytest.raises(NoGpu, match="nvidia-smi ended with 6: No devices were found"):
        machine.Smi("7").machine()


@pytest.mark.parametrize("replicas", [None, 8])
def test_the_daemon_of_mps_limits_as_the_plugin_does_and_ends(programs: Path, tmp_path: Path, replicas: int | None) -> None:
    folder = tmp_path / "folder"
    with mps.daemon(folder, "GPU-1", 143771, replicas) as where:
        assert (folder / "pipe" / "control").exists()
        assert where == {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}
    limits = ["set_default_active_thread_percentage 12", "set_default_device_pinned_mem_limit 0 17971M"] if replicas else []
    assert (programs / "heard").read_text().splitlines() == ["started GPU-1", *limits, "quit"]
    assert not (folder / "pipe" / "control").exists()


def test_the_daemon_ends_when_a_measurement_fails(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), mps.daemon(tmp_path / "folder", "GPU-1", 143771, None):
        raise KeyboardInterrupt
    assert (programs / "heard").read_text().splitlines()[-1] == "quit"


def test_a_daemon_that_is_there_already_is_not_taken_for_time_slicing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert mps.in_force() is None
    (tmp_path / "control").touch()
    done = bench("--backend", "sleeper", "--quick")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"error: a daemon of MPS is in force ({tmp_path}): end it, or measure by one of the bench's own" in done.stderr


def test_a_daemon_that_does_not_end_is_killed_and_told(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So it was on an H200, twice, beside pods that computed there without MPS."""
    stays = "bash -c 'exec -a nvidia-cuda-mps-control sleep 600' > /dev/null 2>&1 &"
    (programs / "nvidia-cuda-mps-control").write_text(CONTROL.replace('echo "started', f'{stays} echo "started'))
    monkeypatch.setattr(mps, "_SECONDS", 0.5)
    with mps.daemon(tmp_path / "folder", "GPU-1", 143771, None) as found:
        time.sleep(0.2)
        listed = subprocess.run(["pgrep", "-f", "^nvidia-cuda-mps-control 600"], capture_output=True, text=True, check=False)
        assert len(listed.stdout.split()) == 1
    (pid,) = listed.stdout.split()
    assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()
    pipes = found["CUDA_MPS_PIPE_DIRECTORY"]
    assert capsys.readouterr().err == (
        f"warning: the daemon of MPS with its pipes in {pipes} did not end when it was told to, and was killed\n"
    )


def test_a_daemon_that_does_not_start_is_told(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFUSES", "1")
    with pytest.raises(NoGpu, match="nvidia-cuda-mps-control -d ended with 1"), mps.daemon(tmp_path / "one", "GPU-1", 1, None):
        pass
    (programs / "nvidia-cuda-mps-control").unlink()
    with pytest.raises(NoGpu, match="is not on PATH"), mps.daemon(tmp_path / "two", "GPU-1", 1, None):
        pass


def test_a_setting_that_is_another_one_afterwards_is_an_error(programs: Path, tmp_path: Path) -> None:
    (programs / "nvcc").write_text(
        f"#!/bin/sh\nif [ $# = 1 ]; then echo 'release 13.0, V13.0.48'; exit; fi\nwhile [ $1 != -o ]; do shift; done\n"
        f"printf '#!/bin/sh\\necho Exclusive_Process > {programs}/mode\\nexec {sys.executable} "
        f'{ROOT}/gpu_pools/bench/client.py sleeper "$@"\\n\' > $2; chmod +x $2\n'
    )
    (programs / "nvcc").chmod(0o755)
    file = tmp_path / "mine.json"
    options = ("--quick", "--kinds", "inference", "--clients", "1", "--parts", "throughput", "--gpu", "1", "--json", str(file))
    done = bench("--backend", "cuda", *options)
    assert "error: compute_mode of the GPU was Default, and is Exclusive_Process now." in done.stderr
    assert done.returncode == 1
    found = json.loads(file.read_text())
    assert (found["backend"], found["changed"]) == ("cuda 13.0", {"compute_mode": "Exclusive_Process"})


#: A way into the pods of a Job that leads to this machine, with the files beside it. What is not understood is refused.
KUBECTL = """#!/bin/sh
[ "$1 $2" = "--namespace team" ] || exit 3
shift 2
case "$1" in
  exec) [ "$2 $4" = "-i --" ] || exit 3
        echo "$3" >> "$HEARD"; shift 4
        case "$*" in */bench/client.*)
          exec sh -c "$(echo "$3" | sed "s,/tmp/,$(dirname "$0")/,; s,/bench/client.py torch,CLIENT sleeper,")" "$4" ;;
        esac
        exec "$@" ;;
  *) exit 3 ;;
esac
"""


OF_JOB = {"batch.kubernetes.io/job-name": "bench-sliced"}


def pod(name: str, phase: str = "Running", backend: str = "torch") -> dict[str, object]:
    said = {"gpu-pools/bench-strategy": "mps", "gpu-pools/bench-replicas": "4"}
    container = {"env": [{"name": "GPU_POOLS_BENCH_BACKEND", "value": backend}]}
    return {
        "metadata": {"name": name, "annotations": said, "labels": OF_JOB},
        "spec": {"containers": [container]},
        "status": {"phase": phase},
    }


@pytest.fixture
def cluster(programs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A cluster that tells of pods, and kubectl on PATH, which enters them."""
    python = programs / "python3"
    python.symlink_to(sys.executable)
    client = ROOT / "gpu_pools" / "bench" / "client.py"
    (programs / "kubectl").write_text(KUBECTL.replace("CLIENT", str(client)))
    (programs / "kubectl").chmod(0o755)
    server = ApiServer()
    (programs / "kubeconfig").write_text(server.kubeconfig)
    monkeypatch.setenv("KUBECONFIG", str(programs / "kubeconfig"))
    smi = (programs / "nvidia-smi").read_text()
    (programs / "nvidia-smi").write_text(
        smi.replace("*--id=7*)", "*--id=0*query-gpu=compute_mode*) echo Default,a,b,c,d,e,f,g;; *--id=7*)")
    )
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("backend", ["torch", "cuda"])
def test_pods_of_a_job_are_clients(cluster: ApiServer, programs: Path, tmp_path: Path, backend: str) -> None:
    cluster.items["pods"] = [pod("b", backend=backend), pod("a", backend=backend)]
    (programs / "nvcc").write_text(
        "#!/bin/sh\necho compiling\nwhile [ $1 != -o ]; do shift; done\n[ $3 = /bench/client.cu ] || exit 9\n"
        f"printf '#!/bin/sh\nexec {sys.executable} {ROOT}/gpu_pools/bench/client.py sleeper \"$@\"\n' > $2.$$\n"
        "chmod +x $2.$$; mv $2.$$ $2\n"
    )
    (programs / "nvcc").chmod(0o755)
    file = tmp_path / "mine.json"
    options = ("--kinds", "inference", "--clients", "4", "--quick", "--json", str(file))
    done = bench("--job", "bench-sliced", "--namespace", "team", *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert [row["clients"] for row in found["rows"]] == [2]
    assert (found["strategy"], found["limits"], found["faults"]) == ("mps", 4, [])
    assert found["backend"] == f"{backend} of the image"
    assert "the Job has 2 pods: what clients do to each other needs 4" in done.stderr
    assert set((programs / "heard").read_text().split()) == {"a", "b"}
    assert cluster.collections == ["/api/v1/namespaces/team/pods"]


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        ([], "Job bench-sliced in namespace team: it has no pods; apply what `gpu-pools bench-job` prints"),
        ([pod("a"), pod("b", "Pending")], "these pods do not run: b"),
        ([{**pod("a"), "metadata": {"name": "a", "labels": OF_JOB}}], "Job bench-sliced does not say how its pool shares"),
        ([pod("a", backend="opencl")], "Job bench-sliced runs clients of 'opencl', which this version does not know"),
    ],
)
def test_pods_that_are_not_there_are_told(cluster: ApiServer, pods: list[object], told: str) -> None:
    cluster.items["pods"] = pods
    done = bench("--job", "bench-sliced", "--namespace", "team")
    assert (done.returncode, done.stdout) == (1, "")
    assert told in done.stderr


def test_a_cluster_that_refuses_is_told_with_the_right_that_is_missing(cluster: ApiServer) -> None:
    cluster.items["pods"] = Refusal(403, "pods is forbidden")
    done = bench("--job", "bench-sliced", "--namespace", "team")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the pods of Job bench-sliced cannot be read: pods is forbidden. Ask" in done.stderr
    assert "the right to list pods in the namespace team" in done.stderr


def test_pods_on_several_gpus_share_nothing(cluster: ApiServer, programs: Path) -> None:
    cluster.items["pods"] = [pod("a"), pod("b")]
    smi = (programs / "nvidia-smi").read_text()
    (programs / "nvidia-smi").write_text(smi.replace('"1, GPU-1,', '"1, GPU-$(wc -l < "$HEARD" | tr -d " "),'))
    done = bench("--job", "bench-sliced", "--namespace", "team")
    assert done.returncode == 1
    assert "the pods are not on one GPU, so they share nothing: a: GPU-" in done.stderr


def test_a_job_is_printed_for_a_pool() -> None:
    stack = str(ROOT / "stacks" / "Pulumi.aks-dev.yaml")
    command = [sys.executable, "-m", "gpu_pools", "bench-job", stack]
    done = subprocess.run(
        [*command, "timesliced", "--image", "torch@sha256:0"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    config, job = yaml.safe_load_all(done.stdout)
    assert config["data"]["client.py"] == (ROOT / "gpu_pools" / "bench" / "client.py").read_text()
    spec = job["spec"]["template"]["spec"]
    assert job["spec"]["parallelism"] == job["spec"]["completions"] == 4
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert spec["containers"][0]["image"] == "torch@sha256:0"
    assert job["spec"]["template"]["metadata"]["annotations"] == {"gpu-pools/bench-strategy": "timeSlicing"}
    compiled = [*command, "timesliced", "--image", "nvcc@sha256:0", "--backend", "cuda"]
    config, job = yaml.safe_load_all(subprocess.run(compiled, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
    assert config["data"] == {"client.cu": (ROOT / "gpu_pools" / "bench" / "client.cu").read_text()}
    (variable,) = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert variable["value"] == "cuda"
    refused = subprocess.run([*command, "nobody", "--image", "x"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert refused.returncode == 2
    assert "pool 'nobody' is not in the stack file; there are timesliced, " in refused.stderr


def test_what_nvcc_refuses_is_shown(programs: Path, tmp_path: Path) -> None:
    (programs / "nvcc").write_text("#!/bin/sh\n[ $# = 1 ] && exit\necho 'client.cu(7): error' >&2\nexit 2\n")
    (programs / "nvcc").chmod(0o755)
    with pytest.raises(NoGpu, match=r"nvcc does not compile the client:\nclient\.cu\(7\): error"):
        clients.command("cuda", tmp_path)
    with pytest.raises(NoGpu, match="has no PyTorch"):
        clients.command("torch", tmp_path)
