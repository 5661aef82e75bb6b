"""What the real nfd-worker makes of what it is shown of a simulated machine; nothing is published."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sandbox.cluster import gpu_host
from sandbox.cluster.machine_groups import Hardware, MachineGroup
from sandbox.machines.gpu import new_gpus
from sandbox.machines.machine import Machine
from sandbox.machines.nfd_view import KERNEL, View, entering, put, view
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.sandbox.unprivileged import hold_in_user_namespaces

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Look = Callable[..., tuple[dict[str, str], str]]

pytestmark = pytest.mark.programs

PREFIX = "feature.node.kubernetes.io/"
MARKED = {"gpu-pools": "# +no-label\ngpu-pools/pool=nb\n"}
_LABEL = re.compile(r'^\t(\S+): "?([^"\n]*)"?$', re.MULTILINE)


def machine(gpus: int = 1, files: dict[str, str] | None = None) -> Machine:
    hardware = Hardware(4, 16, "t4-16gb", "Tesla T4", gpus)
    return Machine("node", MachineGroup("g", "g", 1, hardware), new_gpus("node", hardware, None), features=files or {})


@pytest.fixture(scope="module")
def program() -> Path:
    return find_tools(Progress(sys.stderr), only={"nfd_worker"}).nfd_worker


@pytest.fixture
def look(program: Path, tmp_path: Path) -> Look:
    """The labels that it would ask for, and everything that it said."""
    folder = tmp_path / "view"
    # Read, and not used.
    cluster = {"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "none", "context": {"cluster": "none", "user": ""}}
    kubeconfig = json.dumps({"current-context": "none", "clusters": [cluster], "contexts": [context]})

    def looked(shown: View, config: str = "", *, anew: bool = True) -> tuple[dict[str, str], str]:
        put(folder, {**shown.files(), "nfd-worker.conf": config, "kubeconfig": kubeconfig, "namespace": "nfd"})
        enter = entering(gpu_host.namespaces()) if anew else []
        options = ("-oneshot", "-no-publish", "-v=4", "-config=nfd-worker.conf", "-kubeconfig=kubeconfig")
        environment = {"NODE_NAME": "node", "KUBERNETES_NAMESPACE": "nfd", "PATH": os.environ["PATH"]}
        argv = [*enter, program, *options]
        done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        told = done.stderr.partition('feature discovery completed" labels=<')[2].partition("\n >")[0]
        return dict(_LABEL.findall(told)), done.stderr

    return looked


def pci(look: Look, config: str, gpus: int = 1) -> set[str]:
    labels, _ = look(view(machine(gpus)), config)
    return {key.removeprefix(PREFIX) for key in labels if "pci-" in key}


def test_the_default_configuration_labels_class_and_vendor_of_gpus(look: Look) -> None:
    assert pci(look, "") == {"pci-0302_10de.present"}
    assert pci(look, "", gpus=0) == set()


def test_the_operators_configuration_labels_the_vendor(look: Look) -> None:
    config = "sources: {pci: {deviceClassWhitelist: ['02', '0300', '0302'], deviceLabelFields: [vendor]}}"
    assert pci(look, config) == {"pci-10de.present", "pci-1af4.present"}


def test_every_gpu_is_a_pci_device_with_the_ids_of_its_product(look: Look) -> None:
    labels, said = look(view(machine(2)), "sources: {pci: {deviceLabelFields: [class, vendor, device, subsystem_vendor]}}")
    assert f"{PREFIX}pci-0302_10de_1eb8_10de.present" in labels
    assert said.count("device: 1eb8") == 2


def test_the_operating_system_and_the_kernel_are_the_machines(look: Look) -> None:
    labels, said = look(replace(view(machine()), driver=True))
    assert labels[f"{PREFIX}system-os_release.ID"] == "ubuntu"
    assert labels[f"{PREFIX}system-os_release.VERSION_ID"] == "24.04"
    if gpu_host.namespaces() is None:
        pytest.skip("NOT looked at: the kernel is this machine's where no namespace can be made")
    assert labels[f"{PREFIX}kernel-version.full"] == KERNEL
    assert not [key for key in labels if "kernel-config" in key]
    assert "nvidia: {}" in said
    assert "nvidia: {}" not in look(view(machine()))[1]


def test_without_a_namespace_of_its_own_it_sees_this_machines_kernel(look: Look) -> None:
    labels, _ = look(view(machine()), anew=False)
    full = re.sub(r"[^-A-Za-z0-9_.]", "_", os.uname().release).strip("-_.")
    assert labels[f"{PREFIX}kernel-version.full"] == full
    assert f"{PREFIX}pci-0302_10de.present" in labels


def test_the_labellers_file_is_a_feature_and_no_label_and_others_are_both(look: Look) -> None:
    files = {**MARKED, "other": "a/one=1\n# +no-label\na/two=2\nflag\n"}
    labels, said = look(view(machine(files=files)))
    assert (labels["a/one"], labels["flag"]) == ("1", "true")
    assert not {"a/two", "gpu-pools/pool"} & labels.keys()
    assert "gpu-pools/pool: nb" in said


def test_a_device_and_a_file_that_are_gone_are_not_seen_any_more(look: Look) -> None:
    first, _ = look(view(machine(files={"f": "a/one=1\n"})))
    then, _ = look(view(machine(gpus=0)))
    assert first.keys() - then.keys() == {f"{PREFIX}pci-0302_10de.present", "a/one"}


def test_whoever_is_not_root_sees_the_same(program: Path, tmp_path: Path) -> None:
    del program
    hold_in_user_namespaces(f"{__file__}::test_the_operating_system_and_the_kernel_are_the_machines", tmp_path / "inner")
