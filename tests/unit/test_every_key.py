"""Every key of every table of settings: what it takes, what it refuses and with which words, and what it sets in the cloud.

tests/golden/keys.txt has it key by key, so that whoever changes a row reads what that does to people. After a wanted change:
``UPDATE_GOLDEN=1 venv/bin/pytest tests/unit/test_every_key.py``, then read the difference. What holds between keys is not here.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpu_pools
from gpu_pools.platforms.known import rows_of
from gpu_pools.reading.section import Section
from gpu_pools.text.errors import Problems, show
from tests.unit.golden import golden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.reading.fields import Row
    from gpu_pools.text.errors import Problem

#: Values of every kind; none of the texts means anything anywhere.
PROBES: Final[tuple[Any, ...]] = (True, -5, 0, 10**9, 0.5, "~ ~", [], ["~ ~"], {}, {"~": "~ ~"})
#: The packages that have tables of settings.
_DECLARING: Final = ("gpu_pools.platforms.", "gpu_pools.sharing.", "gpu_pools.stack.")
#: Keys that are read together with the rest of the stack.
IN_CONTEXT: Final = {
    "Acknowledgement.resource",
    *(f"ChartSettings.{key}" for key in ("version", "chart")),
    "MagnumPlacement.flavor",
    *(f"Pool.{key}" for key in ("name", "count", "sharing", "labels", "taints", "protect", "adopted")),
    *(f"Pool.{key}" for key in ("replace", "drainTimeoutSeconds")),
}


def _keys() -> dict[str, Row]:
    found = {}
    for info in pkgutil.walk_packages(gpu_pools.__path__, "gpu_pools."):
        if not info.name.startswith(_DECLARING):
            continue
        module = importlib.import_module(info.name)
        for name, one in vars(module).items():
            if dataclasses.is_dataclass(one) and isinstance(one, type) and one.__module__ == module.__name__:
                found |= {f"{name}.{row.key}": row for row in rows_of(one)}
    return dict(sorted(found.items()))


KEYS: Final = _keys()
ALONE: Final = {name: row for name, row in KEYS.items() if name not in IN_CONTEXT}


def read(row: Row, value: object) -> tuple[object, tuple[Problem, ...]]:
    """What becomes of a value that is written under a key, and what is wrong with it."""
    problems = Problems()
    return row.kind.read(Section({} if value is None else {row.key: value}, "", problems), row), problems.found


def _shown(row: Row) -> Iterator[str]:
    taken, refusals = [], []
    for probe in PROBES:
        value, problems = read(row, probe)
        # Of the same kind of mistake one is enough.
        refusals += [f"{one.message.replace(show(probe), '…')}: {one.allowed}" for one in problems]
        if not problems:
            taken.append(repr(probe) if value == probe else f"{probe!r} as {value!r}")
    absent, missing = read(row, None)
    yield f"  default {row.default!r}"
    if absent is not None:
        yield f"  absent {absent!r}"
    yield from (f"  missing: {one.allowed}" for one in missing)
    yield from (f"  {name} {value}" for name in ("either", "sets", "change") if (value := getattr(row, name)))
    yield from (f"  takes {one}" for one in taken)
    yield from (f"  refuses {one}" for one in dict.fromkeys(refusals))


def test_each_key_takes_refuses_and_sets_what_it_did() -> None:
    golden("keys.txt", "".join(f"{line}\n" for name, row in ALONE.items() for line in (name, *_shown(row))))


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=5,
)


@given(name=st.sampled_from(sorted(ALONE)), value=JSON)
def test_whatever_is_written_is_taken_or_refused_at_its_place(name: str, value: object) -> None:
    row = KEYS[name]
    for one in read(row, value)[1]:
        # null is as good as not written: then it may be the section that lacks it.
        assert one.path.startswith(f".{row.key}") or (value is None and one.path == "")
        assert one.allowed


def _allowed(row: Row) -> list[str]:
    """What is said to be allowed to whoever writes something else."""
    problems = [one for probe in ("~ ~", -(10**9)) for one in read(row, probe)[1]]
    return list(dict.fromkeys(one.allowed for one in problems if one.path == f".{row.key}"))


_BOUNDS: Final = re.compile(r"a (?:whole )?number, at least (-?\d+)(?: and at most (\d+))?")
BOUNDED: Final = {
    name: [int(bound) if bound else None for bound in match.groups()]
    for name, row in ALONE.items()
    for allowed in _allowed(row)
    if (match := _BOUNDS.fullmatch(allowed))
}
CHOOSING: Final = {
    name: allowed.split(" | ")
    for name, row in ALONE.items()
    for allowed in _allowed(row)
    if isinstance(row.kind.type, str) and re.fullmatch(r"[\w+-]+( \| [\w+-]+)+", allowed)
}


def test_there_are_keys_with_bounds_and_with_choices() -> None:
    assert len(BOUNDED) > 20
    assert len(CHOOSING) > 20


@pytest.mark.parametrize("name", BOUNDED)
def test_a_number_may_be_as_small_and_as_large_as_is_said(name: str) -> None:
    row, (least, most) = KEYS[name], BOUNDED[name]
    assert least is not None
    assert not read(row, least)[1]
    assert read(row, least - 1)[1]
    if most is not None:
        assert not read(row, most)[1]
        assert read(row, most + 1)[1]


@pytest.mark.parametrize("name", CHOOSING)
def test_each_choice_that_is_told_is_taken_as_it_is(name: str) -> None:
    for choice in CHOOSING[name]:
        assert read(KEYS[name], choice) == (choice, ())
        assert read(KEYS[name], f"{choice}~")[1]


GUID: Final = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
_GROUPS: Final = (["g", "Rg-1_a.b(c)", "g" * 90], ["g" * 91, "ends-with-a.", "a b"])
_VERSIONS: Final = (["1.34", "1.34.12"], ["1", "1.", "2.0", "1.34.", "1-34", "v1.34"])
_DURATIONS: Final = (["10s", "2m", "1h"], ["10", "m", "10d", "1.5h"])
_SHARES: Final = (["1", "9999", "33%", "100%"], ["10000", "1000%", "%", "-1", "1.5"])
_COUNTS: Final = (["0", "999999"], ["1000000", "-1", "1.5"])
_PROXIES: Final = (
    ["http://p", "https://proxy.example.com:3128/", f"http://{'p' * 248}"],
    ["ftp://p", "http://user@p", "http://p/path", "http://", f"http://{'p' * 249}"],
)
_GUIDS: Final = ([GUID, GUID.upper()], [GUID[1:], GUID.replace("-", ""), f"{GUID}0", "g" + GUID[1:]])
_PINNED: Final = f"python:3.11@sha256:{'a' * 64}"
_IMAGES: Final = ([_PINNED, "registry.example.com:5000/a/b:1.0"], ["python", "python:", "py thon:3.12", "@sha256:ab"])
_DELAYS: Final = (
    *("newPodScaleUpDelay", "scaleDownDelayAfterAdd", "scaleDownDelayAfterDelete", "scaleDownDelayAfterFailure"),
    *("scaleDownUnneededTime", "scaleDownUnreadyTime", "scanInterval"),
)
_LIMITS: Final = ("maxGracefulTerminationSec", "maxEmptyBulkDelete", "maxTotalUnreadyPercentage", "okTotalUnreadyCount")
#: Texts that fit, and texts that nearly do.
FITTING: Final[dict[str, tuple[list[str], list[str]]]] = {
    "KubeletIdentity.clientId": _GUIDS,
    "KubeletIdentity.objectId": _GUIDS,
    "AksClusterOptions.existingResourceGroup": _GROUPS,
    "AksClusterOptions.nodeResourceGroup": _GROUPS,
    "KeyVaultSecrets.rotationInterval": _DURATIONS,
    "Monitoring.location": (["westeurope", "eastus2"], ["West Europe", "west-europe"]),
    "AksPoolOptions.kubernetesVersion": _VERSIONS,
    "KubeletConfig.cpuCfsQuotaPeriod": (["100ms", "5us", "1s"], ["100", "1m", "s"]),
    "UpgradeSettings.maxSurge": _SHARES,
    "UpgradeSettings.maxUnavailable": _SHARES,
    "Autoscaler.maxNodeProvisionTime": (["15m"], ["15", "15s", "m"]),
    "Autoscaler.scaleDownUtilizationThreshold": (["0", "0.5", ".25", "1", "1.0"], ["2", "1.1", "50%", "0."]),
    **{f"Autoscaler.{key}": _DURATIONS for key in _DELAYS},
    **{f"Autoscaler.{key}": _COUNTS for key in _LIMITS},
    "Window.startDate": (["2027-01-31", "2027-12-09"], ["2027-13-01", "2027-01-32", "27-01-01", "2027-1-1"]),
    "RolloutWindow.startTime": (["00:00", "19:59", "23:30"], ["24:00", "2:00", "12:60", "12"]),
    "RolloutWindow.utcOffset": (["+01:00", "-11:30", "+23:00"], ["01:00", "+24:00", "+1:00"]),
    "Window.startTime": (["00:00", "19:59", "23:30"], ["24:00", "2:00", "12:60", "12"]),
    "Window.utcOffset": (["+01:00", "-11:30", "+23:00"], ["01:00", "+24:00", "+1:00"]),
    "AksSettings.kubernetesVersion": _VERSIONS,
    "AksSettings.location": (["westeurope", "eastus2"], ["West Europe", "2west", "WestEurope"]),
    "AksSettings.name": (["a", "A-b_1", "a" * 63], ["a" * 64, "-a", "a-", "a.b"]),
    "AksSettings.resourceGroup": _GROUPS,
    "AzureMonitorSettings.location": (["westeurope", "eastus2"], ["West Europe", "2eastus"]),
    "MagnumSettings.name": (["a", "gpu_1.x-", "a" * 242], ["a" * 243, "1a", "-a"]),
    "MagnumTemplate.dnsNameserver": (["8.8.8.8", "10.0.0.2,10.0.0.3"], ["8.8.8", "dns", "10.0.0.2 10.0.0.3"]),
    "MagnumTemplate.httpProxy": _PROXIES,
    "MagnumTemplate.httpsProxy": _PROXIES,
    "MagnumTemplate.noProxy": (["a", "10.0.0.0/8,.svc", "a" * 255], ["a, b", ",a", "a,", "a" * 256]),
    "SystemPool.vmSize": (["Standard_D4s_v5", "standard_d4s_v5"], ["D4s_v5", "Standard_D4s-v5"]),
    "EntraSettings.tenant": _GUIDS,
    "ExistingAks.name": (["a", "A-b_1", "a" * 63], ["a" * 64, "-a", "a-", "a.b"]),
    "ExistingAks.resourceGroup": _GROUPS,
    "ExistingAks.subscription": _GUIDS,
    "ExistingMagnum.name": (["a", "gpu_1.x-", "a" * 242], ["a" * 243, "1a", "-a"]),
    "ExistingMagnum.uuid": ([GUID], [GUID.upper(), GUID[1:], f"{GUID}0"]),
    "DeclaredModel.computeCapability": (["8.6", "12.0"], ["8", "8.", "8,6"]),
    "DeclaredModel.product": (["NVIDIA RTX A6000", "B2", "A" * 95], ["A", "A" * 96, " A6000", "a;b"]),
    "ObservabilitySettings.runbooks": (
        ["https://docs.example.com/runbooks", "http://wiki/a-b"],
        ["docs/runbooks", "ftp://docs", "https://", "https://a b"],
    ),
    "Minimum.cuda": (["12.8", "13.0"], ["12", "12.8.1", "v12.8"]),
    "Minimum.driver": (["570.124.06", "570.124", "570"], ["v570", "570.", "570,1"]),
    "Acknowledgement.change": (["c42267e62", "u00000000", "gffffffff"], ["42267e62", "a42267e62", "c42267e6", "C42267e62"]),
    "Acknowledgement.reason": (["idle until May", " 0123456789"], ["it is idl", " " * 10]),
    "ChartSource.oci": (["oci://registry.example.com/a"], ["https://registry.example.com/a", "oci://", "oci://a b"]),
    "ChartSource.repository": (["https://charts.example.com", "http://m/a"], ["oci://registry.example.com", "https://"]),
    "NfdSettings.markerImage": _IMAGES,
    "Needs.memoryPerReplica": (["1Mi", "12Gi", "999999999Gi"], ["12", "12GB", "0Gi", "1.5Gi", "12 Gi", "1000000000Mi"]),
    "RegistrySettings.mirror": (
        ["registry.example.com", "localhost:5000/all", "R.example.com/a/b_c-d"],
        ["https://registry.example.com", "registry.example.com/", "r/A", "r:123456"],
    ),
    "RegistrySettings.pullSecret": (["a", "a.b-c", "a" * 253], ["A", "-a", "a-", "a_b", "a" * 254]),
    "VerificationSettings.image": ([_PINNED], ["python:3.12", _PINNED[:-1], _PINNED.replace("256", "512")]),
    "VerificationSettings.smokeTestImage": _IMAGES,
}


@pytest.mark.parametrize("name", FITTING)
def test_a_text_that_fits_is_taken_and_one_that_nearly_does_is_refused(name: str) -> None:
    fitting, others = FITTING[name]
    assert [text for text in fitting if read(KEYS[name], text)[1]] == []
    assert [text for text in others if not read(KEYS[name], text)[1]] == []


def test_of_each_pattern_there_are_such_texts() -> None:
    patterned = {name for name, row in ALONE.items() if any("does not fit" in one.message for one in read(row, "~ ~")[1])}
    assert patterned - {"DeclaredModel.product"} == FITTING.keys() - {"DeclaredModel.product"}
