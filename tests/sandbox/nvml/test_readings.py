"""The library answers as real GPUs did, field by field, error codes included.

The readings were made by readings/record.py on real GPUs; the same program, unchanged, reads the simulated ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.nvml import from_tables, simulated, state
from sandbox.nvml.facts import Answer
from sandbox.nvml.library import nvml_environment

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.programs

READINGS = Path(__file__).parent.parent / "readings"
MODELS = sorted(path.stem for path in READINGS.glob("*.json"))

# What no model decides, so a simulated machine does not know it unless it is told. Nothing else may differ.
OF_ONE_CARD = {
    "nvmlDeviceGetSerial": "names one GPU; the reading does not tell it",
    "nvmlDeviceGetBoardId": "names one GPU; the reading does not tell it",
    "nvmlDeviceGetBoardPartNumber": "boards of one product come with several",
    "nvmlDeviceGetInforomImageVersion": "of the GPU's firmware",
    "nvmlDeviceGetVbiosVersion": "of the GPU's firmware",
    "nvmlDeviceGetInforomConfigurationChecksum": "of the GPU's firmware",
    "nvmlDeviceGetRemappedRows": "repairs of that GPU",
    "nvmlDeviceGetTotalEccErrors": "errors of that GPU",
}
OF_THE_HOST = {
    "nvmlDeviceGetPersistenceMode": "what its administrator set",
    "nvmlSystemGetConfComputeCapabilities": "depends on the CPU",
}
MOVES = {
    "nvmlDeviceGetPowerUsage": "with the load",
    "nvmlDeviceGetPowerState": "with the load",
    "nvmlDeviceGetPerformanceState": "with the load",
    "nvmlDeviceGetUtilizationRates": "with the load",
    "nvmlDeviceGetCurrentClocksEventReasons": "with the load",
}
TOLD = {**OF_ONE_CARD, **OF_THE_HOST, **MOVES}
# These have lines of their own in the state file, or are only said to be there; all others are lines "answer".
ON_OTHER_LINES = {"nvmlDeviceGetSerial", "nvmlDeviceGetBoardId", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetTotalEccErrors"}


def reading(key: str) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((READINGS / f"{key}.json").read_text())
    return {**recorded["system"], **recorded["device"]}


def fresh(real: dict[str, Any], key: str) -> simulated.Machine:
    """A machine of that model as anyone gets it, with the driver of the reading."""
    return from_tables.machine_state(key, real["nvmlDeviceGetName"], 1, driver_version=real["nvmlSystemGetDriverVersion"])


def words(value: Any) -> str:
    """A scalar or a struct of a reading, as the state file has it."""
    return " ".join(map(str, value.values())) if isinstance(value, dict) else str(value)


def told(machine: simulated.Machine, real: dict[str, Any]) -> simulated.Machine:
    """The same with what the reading says of that very GPU, its host and its load."""
    answers = [Answer(name, words(real[name])) for name in TOLD if name not in ON_OTHER_LINES]
    of_machine = tuple(answer for answer in answers if answer.function.startswith("nvmlSystem"))
    of_gpu = tuple(answer for answer in answers if answer not in of_machine)
    errors = real["nvmlDeviceGetTotalEccErrors"]
    [gpu] = machine.gpus
    gpu = replace(
        gpu,
        serial="1650920000001",
        ecc_errors=tuple(errors[f"{kind}/{counter}"] for counter in range(2) for kind in range(2)),
        remapped_rows=tuple(real["nvmlDeviceGetRemappedRows"]),
        answers=(*gpu.answers, Answer("nvmlDeviceGetBoardId", "256"), *of_gpu),
    )
    return replace(machine, gpus=(gpu,), answers=of_machine)


@pytest.fixture
def record(library: Path, tmp_path: Path) -> Callable[[simulated.Machine], dict[str, Any]]:
    """Runs the program of the readings on a simulated machine."""

    def run(machine: simulated.Machine) -> dict[str, Any]:
        path = tmp_path / "state"
        state.write(path, machine)
        done = subprocess.run(
            [sys.executable, str(READINGS / "record.py")],
            env={**os.environ, **nvml_environment(library, path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        recorded = json.loads(done.stdout)
        return {**recorded["system"], **recorded["device"]}

    return run


def differences(real: dict[str, Any], ours: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (real.get(name), ours.get(name)) for name in real.keys() | ours if real.get(name) != ours.get(name)}


@pytest.mark.parametrize("key", MODELS)
def test_it_answers_as_the_real_card(key: str, record: Callable[[simulated.Machine], dict[str, Any]]) -> None:
    real = reading(key)
    assert differences(real, record(told(fresh(real, key), real))) == {}


@pytest.mark.parametrize("key", MODELS)
def test_only_what_is_of_the_card_its_host_or_its_load_need_be_told(
    key: str, record: Callable[[simulated.Machine], dict[str, Any]]
) -> None:
    real = reading(key)
    differing = differences(real, record(fresh(real, key)))
    # A GPU without repairs or errors is as a new one.
    may_be_as_new = {"nvmlDeviceGetRemappedRows", "nvmlDeviceGetTotalEccErrors"}
    assert differing.keys() | may_be_as_new == TOLD.keys()


def test_there_are_readings_of_an_h100_and_an_h200() -> None:
    assert set(MODELS) >= {"h100-80gb", "h200-141gb"}
