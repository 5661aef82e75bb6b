from __future__ import annotations

from sandbox.cluster.machine_groups import Hardware, MachineGroup
from sandbox.machines.machine import Machine
from sandbox.machines.nfd import feature_labels, features

PREFIX = "feature.node.kubernetes.io/"
MARKED = {"gpu-pools": "# +no-label\ngpu-pools/pool=nb\n"}


def machine(gpus: int = 1, files: dict[str, str] | None = None) -> Machine:
    return Machine("node", MachineGroup("g", "g", 1, Hardware(4, 16, "t4-16gb", None, gpus)), features=files or {})


def pci(config: str, gpus: int = 1) -> set[str]:
    return {key.removeprefix(PREFIX) for key in feature_labels(machine(gpus), config) if "pci-" in key}


def test_the_default_configuration_labels_class_and_vendor_of_gpus() -> None:
    assert pci("") == {"pci-0302_10de.present"}
    assert pci("", gpus=0) == set()


def test_the_operators_configuration_labels_the_vendor() -> None:
    config = "sources: {pci: {deviceClassWhitelist: ['02', '0300', '0302'], deviceLabelFields: [vendor]}}"
    assert pci(config) == {"pci-10de.present", "pci-1af4.present"}


def test_fields_keep_their_order_and_classes_are_prefixes() -> None:
    assert pci("sources: {pci: {deviceClassWhitelist: ['03'], deviceLabelFields: [vendor, class]}}") == {"pci-0302_10de.present"}
    assert pci("sources: {pci: {deviceLabelFields: [nonsense]}}") == {"pci-0302_10de.present"}
    assert pci("sources: {pci: {deviceClassWhitelist: ['12']}}") == set()


def test_the_labeller_s_file_is_a_feature_and_no_label() -> None:
    marked = machine(files=MARKED)
    assert features(marked)["attributes"]["local.feature"] == {"elements": {"gpu-pools/pool": "nb"}}
    assert not any("gpu-pools" in key for key in feature_labels(marked, ""))


def test_a_directive_is_about_the_next_entry_only() -> None:
    labels = feature_labels(machine(files={"f": "# +no-label\na/one=1\na/two=2\nflag\n"}), "")
    assert "a/one" not in labels
    assert labels["a/two"] == "2"
    assert labels[f"{PREFIX}flag"] == "true"


def test_every_gpu_is_a_pci_device() -> None:
    devices = features(machine(2))["instances"]["pci.device"]["elements"]
    assert [item["attributes"]["class"] for item in devices if item["attributes"]["vendor"] == "10de"] == ["0302", "0302"]
