"""Chart values that end the operator, or NFD's use for it: which are refused, where, and what lies just beside and is not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpu_pools.stack.refused_values import Refused, quantity, refused_nfd_values, refused_operator_values

OPERANDS = (
    *("driver", "driver.manager", "toolkit", "validator", "devicePlugin", "gfd", "migManager", "dcgm", "dcgmExporter"),
    "nodeStatusExporter",
)
DIGEST = "sha256:" + "0a" * 32
CONFIG_MAPS = (
    "devicePlugin.config.name",
    "driver.kernelModuleConfig.name",
    "driver.repoConfig.configMapName",
    "driver.certConfig.name",
)
PLUGIN = ("devicePlugin",)
ENVIRONMENT = "devicePlugin.env"
ON_DELETE = {"updateStrategy": "OnDelete"}


def nested(dotted: str, value: object) -> dict[str, Any]:
    """A value below the keys of a path."""
    for part in reversed(dotted.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def places(found: list[Refused]) -> list[str]:
    """Where what is refused stands."""
    return [".".join(map(str, one.place)) for one in found]


def of_operator(dotted: str, value: object) -> list[Refused]:
    """What is refused of one of the operator's values."""
    return list(refused_operator_values(nested(dotted, value)))


def of_nfd(dotted: str, value: object) -> list[Refused]:
    """What is refused of one of NFD's values."""
    return list(refused_nfd_values(nested(dotted, value)))


@pytest.mark.parametrize("value", [1, "1", "+1", 999_999_999, "1%", "100%", None, ""], ids=repr)
def test_an_update_takes_some_nodes_at_a_time(value: object) -> None:
    assert not of_operator("daemonsets.rollingUpdate.maxUnavailable", value)


@pytest.mark.parametrize("value", [0, "0", "0%", "101%", "1.5", "-1", "x", True, "1%%", 1_000_000_000], ids=repr)
def test_an_update_that_takes_no_node_is_refused(value: object) -> None:
    (one,) = of_operator("daemonsets.rollingUpdate.maxUnavailable", value)
    assert one == Refused(
        ("daemonsets", "rollingUpdate", "maxUnavailable"),
        value,
        "the operator makes no DaemonSet of it (W44)",
        "a number from 1, or 1% to 100%",
    )
    assert not of_operator("daemonsets", {"rollingUpdate": {"maxUnavailable": value}, **ON_DELETE})


@pytest.mark.parametrize("place", CONFIG_MAPS)
@pytest.mark.parametrize(
    ("name", "good"),
    [
        *(("a", True), ("a" * 63, True), ("a-1", True), ("", True), (None, True), (7, True)),
        *(("a" * 64, False), ("a.b", False), ("-a", False)),
    ],
)
def test_a_config_map_becomes_the_name_of_a_volume(place: str, name: object, good: bool) -> None:  # noqa: FBT001
    assert places(of_operator(place, name)) == ([] if good else [place])


@pytest.mark.parametrize(
    ("key", "name", "value", "good"),
    [
        ("labels", "example.com/team", "ml", True),
        ("labels", "team", "", True),
        ("labels", "team", "two words", False),
        ("labels", "team", 7, False),
        ("labels", "a/b/c", "ml", False),
        ("annotations", "team", "two words", True),
        ("annotations", "a/b/c", "ml", False),
        ("annotations", "team", True, False),
        ("others", "a/b/c", True, True),
    ],
)
def test_labels_and_annotations_of_all_daemonsets(key: str, name: str, value: object, good: bool) -> None:  # noqa: FBT001
    found = list(refused_operator_values({"daemonsets": {key: {name: value}}}))
    assert [one.place for one in found] == ([] if good else [("daemonsets", key, name)])


def test_labels_that_are_no_mapping_are_none() -> None:
    assert not of_operator("daemonsets.labels", ["a"])
    assert not of_operator("daemonsets.tolerations", "a")


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ({"operator": "Exists"}, ""),
        ({"key": "sku", "operator": "Exists", "effect": "NoSchedule"}, ""),
        ({"key": "sku", "value": "gpu"}, ""),
        ({"key": "sku", "operator": "Equal", "value": "gpu", "effect": "PreferNoSchedule"}, ""),
        ({"key": "sku", "effect": "", "value": ""}, ""),
        ({"key": "sku", "effect": "NoExecute", "tolerationSeconds": 0}, ""),
        ({"operator": "", "key": "sku"}, ""),
        ({"operator": "Exists", "key": ""}, ""),
        ("sku", "no mapping"),
        ({"operator": "Lt", "key": "sku"}, "operator is Exists or Equal"),
        ({"key": "sku", "effect": "Never"}, "effect is one of NoSchedule, PreferNoSchedule, NoExecute"),
        ({"operator": "Exists", "key": "sku", "value": "gpu"}, "Exists goes without value"),
        ({"value": "gpu"}, "Equal needs a key"),
        ({"key": "a/b/c"}, "the key is not a valid key of a taint"),
        ({"key": "sku", "effect": "NoSchedule", "tolerationSeconds": 0}, "tolerationSeconds goes with NoExecute"),
        ({"key": "sku", "tolerationSeconds": 9}, "tolerationSeconds goes with NoExecute"),
    ],
)
def test_tolerations_of_all_daemonsets(entry: object, wrong: str) -> None:
    found = of_operator("daemonsets.tolerations", [{"operator": "Exists"}, entry])
    why = f"Kubernetes refuses every DaemonSet with it: {wrong} (W44)"
    place = ("daemonsets", "tolerations", 1)
    assert found == ([Refused(place, entry, why, "a toleration of a pod")] if wrong else [])


@pytest.mark.parametrize("operand", OPERANDS)
class TestOperand:
    """What holds of each section with a container of its own."""

    @pytest.mark.parametrize("part", ["repository", "image", "version"])
    @pytest.mark.parametrize("value", [None, ""], ids=repr)
    def test_an_image_has_three_parts(self, operand: str, part: str, value: str | None) -> None:
        known = part == "version" and operand in {"validator", "nodeStatusExporter", "driver.manager"}
        whole = {"repository": "example.com", "image": "some", "version": "1", "enabled": True, part: value}
        assert places(of_operator(operand, whole)) == ([] if known else [f"{operand}.{part}"])
        assert places(of_operator(operand, {part: value})) == ([] if known else [f"{operand}.{part}"])
        assert not of_operator(operand, {**whole, "enabled": False})

    def test_or_one_that_is_all_of_it(self, operand: str) -> None:
        assert not of_operator(operand, {"repository": "", "version": "", "image": f"example.com/some@{DIGEST}"})
        assert f"{operand}.image" in places(of_operator(operand, {"repository": "", "version": "", "image": ""}))

    @pytest.mark.parametrize(
        ("version", "good"),
        [
            *(("1", True), ("v1.2-ubi_9", True), ("_", True), ("a" * 128, True), (DIGEST, True), (7, True)),
            *(("a" * 129, False), (".1", False), ("1 2", False), (DIGEST[:-1] + "g", False)),
        ],
    )
    def test_a_version_is_a_tag(self, operand: str, version: object, good: bool) -> None:  # noqa: FBT001
        assert places(of_operator(operand, {"version": version})) == ([] if good else [f"{operand}.version"])

    @pytest.mark.parametrize("kind", ["requests", "limits"])
    def test_resources(self, operand: str, kind: str) -> None:
        place = f"{operand}.resources.{kind}"
        good = {"cpu": "0", "memory": "1Gi", "ephemeral-storage": 1, "hugepages-2Mi": "2Mi", "example.com/x": 1}
        assert not of_operator(place, good)
        bad = {"cpu": "-1", "memory": "1Gb", "gpus": 1}
        found = of_operator(place, bad)
        assert places(found) == [f"{place}.cpu", f"{place}.memory", f"{place}.gpus"]
        assert [(one.value, one.why, one.allowed) for one in found] == [
            ("-1", "Kubernetes refuses it (W44)", "a quantity, e.g. 100m or 1Gi"),
            ("1Gb", "Kubernetes refuses it (W44)", "a quantity, e.g. 100m or 1Gi"),
            (1, "Kubernetes knows no such resource (W44)", "cpu, memory, ephemeral-storage"),
        ]

    def test_a_request_is_within_its_limit(self, operand: str) -> None:
        limits = {"cpu": 1, "memory": "1Gi"}
        assert not of_operator(f"{operand}.resources", {"requests": {"cpu": "1000m", "hugepages-2Mi": 1}, "limits": limits})
        (one,) = of_operator(f"{operand}.resources", {"requests": {"cpu": "1001m", "memory": "1"}, "limits": limits})
        place = (*operand.split("."), "resources", "requests", "cpu")
        assert one == Refused(place, "1001m", "Kubernetes refuses more than its limit (W44)", "at most the limit")


@pytest.mark.parametrize("operand", OPERANDS)
def test_arguments_are_refused_where_a_script_is_the_only_one(operand: str) -> None:
    refused = operand in {"devicePlugin", "toolkit", "migManager"}
    found = of_operator(f"{operand}.args", ["--x"])
    assert [(one.place, one.value, one.allowed) for one in found] == ([((operand, "args"), ["--x"], "env")] if refused else [])
    assert not of_operator(f"{operand}.args", [])


@pytest.mark.parametrize("operand", [*OPERANDS, "validator.driver", "validator.toolkit", "validator.cuda", "validator.plugin"])
def test_variables_are_those_of_each_container(operand: str) -> None:
    assert places(of_operator(f"{operand}.env", [{}])) == [f"{operand}.env.0"]


@pytest.mark.parametrize(
    ("entry", "value", "allowed"),
    [
        ({"name": "A", "value": "b"}, None, ""),
        ({"name": "A"}, None, ""),
        ({"name": " ~;>"}, None, ""),
        ("A", "A", "name and value, both texts"),
        ({"value": "b"}, {"value": "b"}, "name and value, both texts"),
        ({"name": ""}, {"name": ""}, "name and value, both texts"),
        ({"name": 7}, {"name": 7}, "name and value, both texts"),
        ({"name": "A=B"}, "A=B", "a name without ="),
        ({"name": "Ä"}, "Ä", "a name without ="),
        ({"name": "A", "valueFrom": {}}, "A", "value"),
        ({"name": "A", "value": 7}, 7, "a text, in quotes"),
        ({"name": "A", "value": None}, None, "a text, in quotes"),
    ],
)
def test_a_variable_is_a_name_and_a_text(entry: object, value: object, allowed: str) -> None:
    found = of_operator(ENVIRONMENT, [{"name": "GOOD", "value": ""}, entry])
    expected = [((*PLUGIN, "env", 1), value, allowed)] if allowed else []
    assert [(one.place, one.value, one.allowed) for one in found] == expected


@pytest.mark.parametrize("written", [{"A": "b"}, "A=b", 7], ids=repr)
def test_variables_are_a_list(written: object) -> None:
    """The chart writes whatever it is into the ClusterPolicy, whose definition has a list there."""
    (one,) = of_operator(ENVIRONMENT, written)
    assert (one.place, one.value, one.allowed) == ((*PLUGIN, "env"), written, "a list, each with name and value")


@pytest.mark.parametrize("written", [{}, "", [], None], ids=repr)
def test_the_chart_leaves_out_what_is_empty(written: object) -> None:
    assert not of_operator(ENVIRONMENT, written)


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        *((1, "1"), ("+1", "1"), ("1.", "1"), (".5", "0.5"), ("1.5", "1.5"), ("-1", "-1"), (0.5, "0.5"), ("1e3", "1000")),
        *(("1n", "0.000000001"), ("1u", "0.000001"), ("1m", "0.001"), ("1k", "1000"), ("1M", "1000000"), ("1G", "1E9")),
        *(("1T", "1E12"), ("1P", "1E15"), ("1E", "1E18"), ("1E2", "100"), ("1Ki", "1024"), ("1Mi", "1048576")),
        *(("1Gi", "1073741824"), ("1Ti", "1099511627776"), ("1Pi", "1125899906842624"), ("1Ei", "1152921504606846976")),
        *((value, None) for value in (True, None, "", "1 Gi", "1Kb", "K", ".", "1e99999999999999999999")),
    ],
    ids=repr,
)
def test_a_quantity_is_read_as_kubernetes_does(written: object, amount: str | None) -> None:
    assert quantity(written) == (None if amount is None else Decimal(amount))


CORE = "worker.config.core"
PCI = "worker.config.sources.pci"


@pytest.mark.parametrize("key", ["labelSources", "featureSources", "sources"])
@pytest.mark.parametrize(
    ("sources", "missing"),
    [
        (["all"], ""),
        (["pci", "system", "local"], ""),
        (["-pci", "all"], ""),
        (["all", "-cpu"], ""),
        (None, ""),
        ("pci", ""),
        ([], "pci system local"),
        (["all", "-pci"], "pci"),
        (["pci", "local"], "system"),
        (["pci", "system"], "local"),
    ],
)
def test_sources_of_nfd_that_are_needed(key: str, sources: object, missing: str) -> None:
    found = of_nfd(f"{CORE}.{key}", sources)
    # A labeller's file is a feature of its source, not a label.
    expected = [one for one in missing.split() if (one, key) != ("local", "labelSources")]
    assert [one.why.split()[1] for one in found] == expected
    for one in found:
        assert (".".join(map(str, one.place)), one.value) == (f"{CORE}.{key}", sources)
        assert one.allowed == "all, or a list with pci, system, local"


@pytest.mark.parametrize(
    ("classes", "good"),
    [(["03"], True), (["0300"], True), (["02", "0302"], True), (["0C"], False), ([3], False), ([], False), ("03", False)],
)
def test_the_class_of_gpus_is_looked_at(classes: object, good: bool) -> None:  # noqa: FBT001
    found = of_nfd(PCI, {"deviceClassWhitelist": classes})
    assert [(one.place[-1], one.value) for one in found] == ([] if good else [("deviceClassWhitelist", classes)])
    assert all("no node is known to have a GPU (W40)" in one.why for one in found)


@pytest.mark.parametrize(
    ("fields", "good"),
    [
        *((["vendor"], True), (["class", "vendor"], True), (["vendor", "class"], True), ([], True), (None, True)),
        *((["class"], False), (["vendor", "device"], False), (["subsystem_vendor"], False), (["subsystem_device"], False)),
        (["unheard-of"], True),
    ],
)
def test_gpu_nodes_are_known_by_the_fields_of_a_label(fields: object, good: bool) -> None:  # noqa: FBT001
    assert places(of_nfd(PCI, {"deviceLabelFields": fields})) == ([] if good else [f"{PCI}.deviceLabelFields"])
    assert not of_nfd(PCI, [fields])


@pytest.mark.parametrize(
    "place",
    [
        "worker.config.core.noPublish",
        "master.config.noPublish",
        "master.config.restrictions.disableLabels",
        "master.config.restrictions.denyNodeFeatureLabels",
    ],
)
def test_labels_are_published(place: str) -> None:
    (one,) = of_nfd(place, value=True)
    assert (".".join(map(str, one.place)), one.value, one.allowed) == (place, True, "false")
    assert not of_nfd(place, value=False)


WORKERS = ["pci-10de.present", "system-os_release.ID", "system-os_release.VERSION_ID"]
POOLS = ["device-plugin.config", "mig.config", "pool", "gpu.count", "mps.capable"]


@pytest.mark.parametrize(("place", "names"), [(CORE, WORKERS), ("master.config", [*WORKERS, *POOLS])])
def test_no_pattern_keeps_labels_back(place: str, names: list[str]) -> None:
    """NFD looks for the pattern in the name after the slash."""
    assert not of_nfd(f"{place}.labelWhiteList", "|".join(names))
    assert not of_nfd(f"{place}.labelWhiteList", "")
    assert not of_nfd(f"{place}.labelWhiteList", None)
    # Go may read what Python cannot.
    assert not of_nfd(f"{place}.labelWhiteList", "(?P<x")
    for name in names:
        pattern = "|".join(f"^{other}$" for other in names if other != name)
        (one,) = of_nfd(f"{place}.labelWhiteList", pattern)
        assert f"it does not let {name} through" in one.why
        assert (".".join(map(str, one.place)), one.value) == (f"{place}.labelWhiteList", pattern)
