"""What tests do with the MPS daemon of a simulated node: name its process rightly, and ask it what it serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from sandbox.machines import mps_control
from tests.patience import scaled

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.cluster.api import Api

MPS = "nvidia-device-plugin-mps-control-daemon"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_AT = "object.spec.containers.map(c, c.name).indexOf('config-manager')"
_VARIABLE = "object.spec.containers.filter(c, c.name == 'config-manager')[0].env.map(e, e.name).indexOf('PROCESS_TO_SIGNAL')"


def name_process_rightly(api: Api) -> None:
    """Have the API server change whom config-manager signals in each new pod of the MPS daemon: the name of its process."""
    change = f"'/spec/containers/' + string({_AT}) + '/env/' + string({_VARIABLE}) + '/value'"
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"objectSelector": {"matchLabels": {"app": MPS}}, "resourceRules": [pods]},
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": f"[JSONPatch{{op: 'replace', path: {change}, value: 'mps-control-daemon'}}]"},
            }
        ],
    }
    api.create(f"{_ADMISSION}/mutatingadmissionpolicies", {"metadata": {"name": "mps"}, "spec": spec})
    api.create(f"{_ADMISSION}/mutatingadmissionpolicybindings", {"metadata": {"name": "mps"}, "spec": {"policyName": "mps"}})


def pipes(machine: Path, resource: str = "nvidia.com/gpu") -> Path:
    """The folder for pipes of a simulated machine's MPS daemon, as it is found from outside."""
    return machine / "host" / "run" / "nvidia" / "mps" / resource / "pipe"


def asked(machine: Path, command: str) -> str:
    """What the MPS daemon of a simulated machine answers; empty where none does."""
    environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(pipes(machine))}
    argv = [sys.executable, mps_control.__file__]
    done = subprocess.run(argv, input=command, capture_output=True, text=True, env=environment, check=False, timeout=scaled(20))
    return done.stdout.strip() if done.returncode == 0 else ""


def clients(machine: Path) -> int | None:
    """How many clients the MPS daemon of a simulated machine serves; None where it serves none."""
    said = asked(machine, "get_default_active_thread_percentage")
    if said:
        return round(100 / float(said))
    record = json.loads(machine.with_suffix(".json").read_text())
    replicas: int | None = record["mpsReplicas"]
    return replicas
