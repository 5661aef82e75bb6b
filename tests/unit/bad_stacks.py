"""Stack files that must be refused, each with the problem that must be reported.

Data only: the unit tests plan every case, the engine-level tests run a sample through ``pulumi preview``. Each stack is complete
and good but for what its id names, so that exactly that problem comes out.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from tests.unit.bad_aks_options import OPTION_CASES
from tests.unit.bad_case import FILE, Case
from tests.unit.bad_gpu_models import GPU_MODEL_CASES
from tests.unit.bad_magnum_options import MAGNUM_OPTION_CASES
from tests.unit.stacks import A100, GONE, SYSTEM_POOL, T4, TWO_A100, aks, existing, magnum

if TYPE_CHECKING:
    from collections.abc import Mapping


def _named(type_: str) -> str:
    return f"/subscriptions/{_GROUP}/resourceGroups/ops/providers/{type_}/one"


def _installed(**values: Any) -> dict[str, Any]:
    return {"to": "kube-prometheus-stack", "prometheusStack": {"values": values}}


TEMPLATE = {"image": "fedora-coreos", "externalNetwork": "public", "flavor": "m2.large"}


def _mig(layout: Mapping[str, int], **more: object) -> dict[str, Any]:
    return {"cut": {"mig": {"layout": dict(layout), **more}}}


def _per_gpu(*groups: tuple[object, object]) -> dict[str, Any]:
    return {"cut": {"mig": {"gpus": [{"index": index, "layout": layout} for index, layout in groups]}}}


def _slices(replicas: object, **more: object) -> dict[str, Any]:
    return {"nb": {"timeSlicing": {"replicas": replicas, **more}}}


def _mps(replicas: object) -> dict[str, Any]:
    return {"inf": {"mps": {"replicas": replicas}}}


def _two_pools(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    good = {"vmSize": A100, "count": 1, "sharing": "whole"}
    return [{"name": "one", **good, **first}, {"name": "two", **good, **second}]


def _two_selectors(first: Mapping[str, str], second: Mapping[str, str]) -> list[dict[str, Any]]:
    good = {"gpuModel": "t4-16gb", "gpusPerNode": 1, "sharing": "whole"}
    return [{"name": "one", **good, "nodeSelector": dict(first)}, {"name": "two", **good, "nodeSelector": dict(second)}]


_POOL = "gpu-pools:pools[0]"
_SHARING = "gpu-pools:sharing"
_OPERATOR = "gpu-pools:operator"
_GROUP = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
_CLUSTER = "gpu-pools:cluster"
_MIXED = {"2g.20gb": 2, "3g.40gb": 1}

_FILE_CASES = (
    Case("file-empty", "", FILE, "the file is empty", "gpu-pools:pools", "Write the three sections", read_by_engine=False),
    Case("file-only-comments", "# nothing yet\n# really\n", FILE, "the file is empty", read_by_engine=False),
    Case("file-not-yaml", "config:\n  a: b: c\n", f"{FILE}:2", "not YAML", "`config:`", "syntax", read_by_engine=False),
    Case("file-tab-indent", "config:\n\tgpu-pools:pools: []\n", f"{FILE}:2", "not YAML", remedy="spaces", read_by_engine=False),
    Case(
        "file-duplicate-section",
        "config:\n  gpu-pools:sharing: {}\n  gpu-pools:sharing: {}\n",
        f"{FILE}:3",
        "'gpu-pools:sharing' is given twice",
        remedy="silently keep the last",
        read_by_engine=False,
    ),
    Case(
        "file-duplicate-key-deep-down",
        "config:\n  gpu-pools:sharing:\n    nb:\n      timeSlicing:\n        replicas: 4\n        replicas: 8\n",
        f"{FILE}:6",
        "'replicas' is given twice",
        read_by_engine=False,
    ),
    Case("file-yaml-list", "- a\n- b\n", FILE, "a list of 2, not a mapping", remedy="`config:`", read_by_engine=False),
    Case("file-yaml-scalar", "hello\n", FILE, '"hello", not a mapping', read_by_engine=False),
    Case("file-no-config", "encryptionsalt: v1:abc\n", FILE, "there is no `config:`", read_by_engine=False),
    Case("file-config-empty", "config: {}\n", FILE, "`config` is a mapping with no keys", read_by_engine=False),
    Case("file-config-list", "config: [a]\n", FILE, "`config` is a list of 1", read_by_engine=False),
    Case("file-impossible-date", "config: {gpu-pools:pools: 2026-99-99}\n", FILE, "not YAML", read_by_engine=False),
    Case("file-impossible-number", "config: {gpu-pools:pools: 0x_}\n", FILE, "not YAML", read_by_engine=False),
)

_SECTION_CASES = (
    Case(
        "section-unknown",
        aks().replace("gpu-pools:pools", "gpu-pools:poolz"),
        "gpu-pools:poolz",
        "unknown key",
        "gpu-pools:pools",
        "Did you mean `gpu-pools:pools`?",
    ),
    Case(
        "section-misspelled-beside-the-right-one",
        aks(poolz=[]),
        "gpu-pools:poolz",
        "unknown key",
        remedy="Remove it: `gpu-pools:pools` is written, too.",
    ),
    Case(
        "section-misspelled-does-not-hide-what-is-in-it",
        aks({"count": -1}).replace("gpu-pools:pools", "gpu-pools:poolz"),
        "gpu-pools:pools[0].count",
        "-1 is out of bounds",
        problems=2,
    ),
    Case(
        "sharing-missing",
        aks(pools=[{"name": name, "vmSize": A100, "count": 1, "sharing": name} for name in ("one", "two")]).replace(
            "gpu-pools:sharing", "other:sharing"
        ),
        _SHARING,
        "is missing",
        "{whole: {exclusive: {}}}",
        "Add `gpu-pools:sharing: {one: {exclusive: {}}, two: {exclusive: {}}}`",
        read_by_engine=False,
    ),
    Case(
        "sharing-empty",
        aks().replace("  whole:\n      exclusive: {}", "{}").replace("gpu-pools:sharing:\n  ", "gpu-pools:sharing: "),
        _SHARING,
        "is missing or empty",
        remedy="{whole: {exclusive: {}}}",
    ),
    Case(
        "cluster-platform-misspelled",
        aks(cluster={"platform": GONE, "plattform": "aks", "tier": "Gold"}),
        f"{_CLUSTER}.plattform",
        "unknown key",
        "platform",
        "Did you mean `platform`?",
        problems=2,
    ),
    Case(
        "cluster-unknown-platform-does-not-hide-the-cluster",
        aks(cluster={"platform": "akz", "tier": "Gold"}),
        f"{_CLUSTER}.tier",
        '"Gold" is unknown',
        problems=2,
    ),
    Case("section-unknown-like-nothing", aks(xyzzy=1), "gpu-pools:xyzzy", "unknown key", remedy="Remove it"),
    Case(
        "section-without-namespace",
        aks().replace("gpu-pools:sharing", "sharing"),
        "sharing",
        "has no namespace",
        remedy="Write gpu-pools:sharing.",
        read_by_engine=False,
    ),
    Case(
        "cluster-missing",
        aks().replace("gpu-pools:cluster", "other:cluster"),
        _CLUSTER,
        "is missing",
        "platform: aks | magnum",
        read_by_engine=False,
    ),
    Case("cluster-a-list", aks().replace("platform: aks", "platform: [aks]"), f"{_CLUSTER}.platform", "is not a text", "aks | "),
    Case(
        "cluster-a-text",
        "config: {gpu-pools:cluster: aks, gpu-pools:sharing: {whole: {exclusive: {}}}, gpu-pools:pools: []}",
        _CLUSTER,
        '"aks" is not a mapping',
        "`platform`",
        problems=2,  # the empty list of pools is told at once
        read_by_engine=False,
    ),
    Case("cluster-no-platform", aks(cluster={"platform": GONE}), f"{_CLUSTER}.platform", "is missing", "aks | magnum | existing"),
    Case("cluster-unknown-platform", aks(cluster={"platform": "akz"}), f"{_CLUSTER}.platform", '"akz" is unknown', "", "`aks`"),
    Case(
        "cluster-unknown-platform-does-not-hide-the-pools",
        aks(cluster={"platform": "akz"}, pools=[{"name": "thirteenchars", "vmSize": A100, "count": 1, "sharing": "whole"}]),
        "gpu-pools:pools[0].name",
        "does not fit",
        "1 to 12",
        problems=2,
    ),
    Case("cluster-unknown-key", aks(cluster={"lokation": "x"}), f"{_CLUSTER}.lokation", "unknown key", "location", "`location`"),
    Case("cluster-key-of-another-platform", aks(cluster={"masters": 3}), f"{_CLUSTER}.masters", "unknown key", "systemPool"),
    Case(
        "cluster-misplaced-size",
        aks(cluster={"vmSize": A100}),
        f"{_CLUSTER}.vmSize",
        "unknown key",
        "",
        "a pool of an AKS cluster",
    ),
    Case("cluster-bad-tier", aks(cluster={"tier": "Gold"}), f"{_CLUSTER}.tier", '"Gold" is unknown', "Free | Standard | Premium"),
    Case(
        "cluster-version-a-number",
        aks(cluster={"kubernetesVersion": 1.34}),
        f"{_CLUSTER}.kubernetesVersion",
        "1.34 is not a text",
        "in quotes",
        "1.30 and 1.3 are the same",
    ),
    Case(
        "tag-a-flag",
        aks(cluster={"tags": {"spot": True}}),
        f"{_CLUSTER}.tags.spot",
        "true is not a text",
        remedy="Put it in quotes",
    ),
    Case(
        "tag-a-date",
        aks(cluster={"tags": {"until": dt.date(2027, 1, 1)}}),
        f"{_CLUSTER}.tags.until",
        "2027-01-01 is not a text",
        remedy="Put it in quotes: without them YAML reads a date.",
        read_by_engine=False,
    ),
    Case("cluster-bad-name", aks(cluster={"name": "-x"}), f"{_CLUSTER}.name", '"-x" does not fit', "letters, digits, - and _"),
    Case(
        "cluster-protect-a-text",
        aks(cluster={"protect": "yes"}),
        f"{_CLUSTER}.protect",
        "neither true nor false",
        "true or false",
    ),
    Case("cluster-tags-a-list", aks(cluster={"tags": ["a"]}), f"{_CLUSTER}.tags", "a list of 1 is not a mapping of texts"),
    Case(
        "cluster-tag-a-number", aks(cluster={"tags": {"cost": 7}}), f"{_CLUSTER}.tags.cost", "7 is not a text", remedy='Write "7"'
    ),
    Case(
        "system-pool-unknown-key",
        aks(cluster={"systemPool": {**SYSTEM_POOL, "sku": 1}}),
        f"{_CLUSTER}.systemPool.sku",
        "unknown key",
        "vmSize",
    ),
    Case(
        "system-pool-without-nodes",
        aks(cluster={"systemPool": {"vmSize": "Standard_D4s_v5", "count": 0}}),
        f"{_CLUSTER}.systemPool.count",
        "0 is out of bounds",
        "at least 1",
    ),
    Case(
        "entra-empty", aks(cluster={"entra": {}}), f"{_CLUSTER}.entra.adminGroups", "is missing", "object id", "az ad group show"
    ),
    Case("entra-no-group", aks(cluster={"entra": {"adminGroups": []}}), f"{_CLUSTER}.entra.adminGroups", "the list is empty"),
    Case(
        "entra-group-by-name",
        aks(cluster={"entra": {"adminGroups": ["admins"]}}),
        f"{_CLUSTER}.entra.adminGroups[0]",
        '"admins" is not an object id',
        "a GUID",
        "Azure takes no names",
    ),
    Case(
        "entra-login-that-asks",
        aks(cluster={"entra": {"adminGroups": [_GROUP], "login": "devicecode"}}),
        f"{_CLUSTER}.entra.login",
        '"devicecode" is unknown',
        "azurecli",
        "one that asks nobody",
    ),
    Case(
        "entra-tenant-by-name",
        aks(cluster={"entra": {"adminGroups": [_GROUP], "tenant": "example.com"}}),
        f"{_CLUSTER}.entra.tenant",
        "does not fit",
        "a GUID",
    ),
    Case(
        "entra-unknown-key",
        aks(cluster={"entra": {"adminGroups": [_GROUP], "disableLocalAccounts": True}}),
        f"{_CLUSTER}.entra.disableLocalAccounts",
        "unknown key",
        "localAccounts",
    ),
    Case(
        "local-accounts-off-without-entra",
        aks(cluster={"disableLocalAccounts": True}),
        f"{_CLUSTER}.disableLocalAccounts",
        "unknown key",
        "entra",
        "with gpu-pools:cluster.entra of AKS they are off",
    ),
    Case("magnum-unknown-driver", magnum(cluster={"driver": "hat"}), f"{_CLUSTER}.driver", '"hat" is unknown', "heat | magnum-"),
    Case("magnum-even-masters", magnum(cluster={"masters": 2}), f"{_CLUSTER}.masters", "2 is even", "odd", "Use 1 or 3"),
    Case(
        "magnum-name-begins-with-digit", magnum(cluster={"name": "1abc"}), f"{_CLUSTER}.name", '"1abc" does not fit', "a letter"
    ),
    Case("magnum-name-with-a-space", magnum(cluster={"name": "a b"}), f"{_CLUSTER}.name", '"a b" does not fit', "a letter"),
    Case("magnum-name-too-long", magnum(cluster={"name": "a" * 243}), f"{_CLUSTER}.name", "does not fit", "1 to 242 letters"),
    Case("magnum-no-workers", magnum(cluster={"workers": 0}), f"{_CLUSTER}.workers", "0 is out of bounds", "at least 1"),
    Case("magnum-keypair-empty", magnum(cluster={"keypair": ""}), f"{_CLUSTER}.keypair", '"" does not fit', "1 to 255"),
    Case(
        "magnum-template-id-too-long",
        magnum(cluster={"templateId": "t" * 256}),
        f"{_CLUSTER}.templateId",
        "does not fit",
        "1 to 255",
    ),
    *(
        Case(
            f"magnum-{key}-{what}",
            magnum(cluster={"templateId": GONE, "template": {**TEMPLATE, key: value}}),
            f"{_CLUSTER}.template.{key}",
            message,
            allowed,
        )
        for key, what, value, message, allowed in (
            ("image", "empty", "", '"" does not fit', "1 to 255"),
            ("flavor", "empty", "", '"" does not fit', "1 to 255"),
            ("externalNetwork", "too-long", "n" * 256, "does not fit", "1 to 255"),
            ("networkDriver", "unknown", "weave", '"weave" is unknown', "calico | cilium | flannel"),
            ("dockerVolumeSize", "zero", 0, "0 is out of bounds", "at least 1"),
            ("dnsNameserver", "a-name", "dns.example.com", '"dns.example.com" does not fit', "IPv4 addresses"),
            ("dnsNameserver", "no-address", "8.8.8.256", '"8.8.8.256" does not fit', "IPv4 addresses"),
            ("dnsNameserver", "half-a-list", "8.8.8.8,", '"8.8.8.8," does not fit', "IPv4 addresses"),
        )
    ),
    Case(
        "magnum-template-unknown-key",
        magnum(cluster={"templateId": GONE, "template": {**TEMPLATE, "coe": "swarm"}}),
        f"{_CLUSTER}.template.coe",
        "unknown key",
        "externalNetwork",
    ),
    Case(
        "existing-key-of-aks", existing(cluster={"location": "x"}), f"{_CLUSTER}.location", "unknown key", "context, kubeconfig"
    ),
    Case("aks-name-missing", aks(cluster={"name": GONE}), f"{_CLUSTER}.name", "is missing", deploy_only=True),
    Case(
        "aks-location-missing",
        aks(cluster={"location": GONE}),
        f"{_CLUSTER}.location",
        "is missing",
        "westeurope",
        deploy_only=True,
    ),
    Case(
        "aks-system-pool-missing",
        aks(cluster={"systemPool": GONE}),
        f"{_CLUSTER}.systemPool",
        "is missing",
        "vmSize and nodes or count",
        "AKS needs a pool for its own pods",
        deploy_only=True,
    ),
    Case("magnum-driver-missing", magnum(cluster={"driver": GONE}), f"{_CLUSTER}.driver", "is missing", "heat", deploy_only=True),
    Case(
        "magnum-template-and-id",
        magnum(cluster={"template": TEMPLATE}),
        _CLUSTER,
        "both `template` and `templateId`",
        remedy="Keep one",
        deploy_only=True,
    ),
    Case(
        "magnum-neither-template-nor-id",
        magnum(cluster={"templateId": GONE}),
        _CLUSTER,
        "neither `template` nor `templateId`",
        "`templateId` for one that exists",
        "Add `templateId:",
        deploy_only=True,
    ),
)

_SHARING_CASES = (
    Case(
        "sharing-a-list",
        aks().replace("gpu-pools:sharing:\n    whole:\n      exclusive: {}", "gpu-pools:sharing: []"),
        _SHARING,
        "a list of 0 is not a mapping of names",
        read_by_engine=False,
    ),
    Case("sharing-a-text", aks(sharing={"x": "timeSlicing"}), f"{_SHARING}.x", "exactly one strategy", remedy="Write a mapping"),
    Case(
        "sharing-no-strategy",
        aks(sharing={"x": {}}),
        f"{_SHARING}.x",
        "declares no strategy",
        "exactly one of",
        "`exclusive: {}`",
    ),
    Case(
        "sharing-two-strategies",
        aks(sharing={"x": {"timeSlicing": {"replicas": 4}, "mps": {"replicas": 10}}}),
        f"{_SHARING}.x",
        "timeSlicing and mps declared together",
        "exactly one of exclusive, timeSlicing, mps, mig",
        "silently drop one",
    ),
    Case(
        "sharing-unknown-strategy",
        aks(sharing={"x": {"timeSlicin": {"replicas": 4}}}),
        f"{_SHARING}.x.timeSlicin",
        "unknown key",
        "exclusive, mig, mps, needs, timeSlicing",
        "Did you mean `timeSlicing`?",
    ),
    Case(
        "sharing-needs-only",
        aks(sharing={"x": {"needs": {"memoryPerReplica": "12Gi"}}}),
        f"{_SHARING}.x",
        "declares no strategy",
        "exactly one of exclusive",
    ),
    Case(
        "sharing-needs-nothing",
        aks(sharing={"x": {"exclusive": {}, "needs": None}}),
        f"{_SHARING}.x.needs",
        "nothing is not a mapping with memoryPerReplica",
    ),
    Case(
        "sharing-needs-empty",
        aks(sharing={"x": {"exclusive": {}, "needs": {}}}),
        f"{_SHARING}.x.needs.memoryPerReplica",
        "is missing",
        "a whole number of Mi or Gi",
    ),
    Case(
        "sharing-needs-misspelt",
        aks(sharing={"x": {"exclusive": {}, "needs": {"memoryPerReplica": "12Gi", "memory": "12Gi"}}}),
        f"{_SHARING}.x.needs.memory",
        "unknown key `memory`",
    ),
    Case(
        "sharing-needs-inside-the-strategy",
        aks(sharing={"x": {"timeSlicing": {"replicas": 2, "needs": {"memoryPerReplica": "12Gi"}}}}),
        f"{_SHARING}.x.timeSlicing.needs",
        "unknown key `needs`",
        remedy="`needs` belongs to gpu-pools:sharing.<name>.",
    ),
    *(
        Case(
            f"sharing-needs-memory-{amount!r}",
            aks(sharing={"x": {"exclusive": {}, "needs": {"memoryPerReplica": amount}}}),
            f"{_SHARING}.x.needs.memoryPerReplica",
            allowed="a whole number of Mi or Gi, e.g. 12Gi",
            message=message,
        )
        for amount, message in (("12", "does not fit"), ("12GB", "does not fit"), ("0Gi", "does not fit"), (12, "is not a text"))
    ),
    Case(
        "needs-too-much-for-a-gpu",
        aks(sharing={"x": {"exclusive": {}, "needs": {"memoryPerReplica": "81Gi"}}}),
        f"{_SHARING}.x.needs.memoryPerReplica",
        '82944 MiB do not fit on pool "gpu": a100-80gb has 81920 MiB',
        "at most 81920Mi there",
        "Use a larger MIG profile or GPU",
    ),
    Case(
        "needs-too-much-for-time-slicing",
        aks(sharing={"x": {"timeSlicing": {"replicas": 8}, "needs": {"memoryPerReplica": "12Gi"}}}),
        f"{_SHARING}.x.needs.memoryPerReplica",
        '12288 MiB do not fit on pool "gpu": 8 replicas take turns on the 81920 MiB of a100-80gb, 10240 MiB each',
        "at most 10240Mi there",
        "Use at most 6 replicas",
    ),
    Case(
        "needs-too-much-for-mps",
        aks(sharing={"x": {"mps": {"replicas": 10}, "needs": {"memoryPerReplica": "12Gi"}}}),
        f"{_SHARING}.x.needs.memoryPerReplica",
        "MPS limits each of 10 replicas to 8192 MiB of the 81920 MiB of a100-80gb",
        "at most 8192Mi there",
        "Use at most 6 replicas",
    ),
    Case(
        "needs-too-much-for-a-mig-instance",
        aks(sharing={"cut": {"mig": {"layout": {"1g.10gb": 7}}, "needs": {"memoryPerReplica": "10Gi"}}}),
        f"{_SHARING}.cut.needs.memoryPerReplica",
        "1g.10gb of a100-80gb has 9728 MiB",
        "at most 9728Mi there",
        "Use a larger MIG profile",
    ),
    Case(
        "needs-too-much-for-a-sliced-mig-instance",
        aks(
            sharing={
                "cut": {
                    "mig": {"layout": {"3g.40gb": 2}, "timeSlicing": {"replicas": 4}},
                    "needs": {"memoryPerReplica": "12Gi"},
                }
            }
        ),
        f"{_SHARING}.cut.needs.memoryPerReplica",
        "4 replicas take turns on the 40192 MiB of 3g.40gb of a100-80gb, 10048 MiB each",
        "at most 10048Mi there",
        "Use at most 3 replicas",
    ),
    Case(
        "sharing-misplaced-replicas",
        aks(sharing={"x": {"exclusive": {}, "replicas": 4}}),
        f"{_SHARING}.x.replicas",
        "unknown key",
        remedy="timeSlicing or .mps",
    ),
    Case(
        "exclusive-with-a-key",
        aks(sharing={"x": {"exclusive": {"replicas": 1}}}),
        f"{_SHARING}.x.exclusive.replicas",
        "unknown key",
        "no keys",
    ),
    Case("exclusive-true", aks(sharing={"x": {"exclusive": True}}), f"{_SHARING}.x.exclusive", "true is not an empty mapping"),
    Case(
        "replicas-1",
        aks(sharing=_slices(1)),
        f"{_SHARING}.nb.timeSlicing.replicas",
        "1 is out of bounds",
        "at least 2",
        "use `exclusive: {}`",
    ),
    Case("replicas-0", aks(sharing=_slices(0)), f"{_SHARING}.nb.timeSlicing.replicas", "0 is out of bounds", "at least 2"),
    Case(
        "replicas-negative", aks(sharing=_slices(-4)), f"{_SHARING}.nb.timeSlicing.replicas", "-4 is out of bounds", "at least 2"
    ),
    Case(
        "replicas-a-text",
        aks(sharing=_slices("4")),
        f"{_SHARING}.nb.timeSlicing.replicas",
        '"4" is not a whole number',
        "at least 2",
    ),
    Case(
        "replicas-true", aks(sharing=_slices(replicas=True)), f"{_SHARING}.nb.timeSlicing.replicas", "true is not a whole number"
    ),
    Case(
        "replicas-float",
        aks(sharing=_slices(4.0)),
        f"{_SHARING}.nb.timeSlicing.replicas",
        "4.0 is not a whole number",
        read_by_engine=False,
    ),
    Case(
        "replicas-a-list", aks(sharing=_slices([4])), f"{_SHARING}.nb.timeSlicing.replicas", "a list of 1 is not a whole number"
    ),
    Case(
        "replicas-missing",
        aks(sharing={"x": {"timeSlicing": {}}}),
        f"{_SHARING}.x.timeSlicing.replicas",
        "is missing",
        "at least 2",
    ),
    Case("time-slicing-a-number", aks(sharing={"x": {"timeSlicing": 4}}), f"{_SHARING}.x.timeSlicing", "4 is not a mapping"),
    Case(
        "time-slicing-nothing", aks(sharing={"x": {"timeSlicing": None}}), f"{_SHARING}.x.timeSlicing", "nothing is not a mapping"
    ),
    Case(
        "time-slicing-typo",
        aks(sharing=_slices(4, renameByDefalt=True)),
        f"{_SHARING}.nb.timeSlicing.renameByDefalt",
        "unknown key",
        "renameByDefault",
        "Did you mean `renameByDefault`?",
    ),
    Case(
        "time-slicing-resources",
        aks(sharing=_slices(4, resources=[])),
        f"{_SHARING}.nb.timeSlicing.resources",
        "unknown key",
        remedy="the plan derives the resource names",
    ),
    Case(
        "rename-a-text",
        aks(sharing=_slices(4, renameByDefault="true")),
        f"{_SHARING}.nb.timeSlicing.renameByDefault",
        '"true" is neither true nor false',
        "true or false",
        "without quotes",
    ),
    Case(
        "fail-requests-a-number",
        aks(sharing=_slices(4, failRequestsGreaterThanOne=1)),
        f"{_SHARING}.nb.timeSlicing.failRequestsGreaterThanOne",
        "1 is neither true nor false",
    ),
    Case(
        "mps-replicas-1", aks(sharing=_mps(1)), f"{_SHARING}.inf.mps.replicas", "1 is out of bounds", "at least 2 and at most 48"
    ),
    Case(
        "mps-replicas-0", aks(sharing=_mps(0)), f"{_SHARING}.inf.mps.replicas", "0 is out of bounds", "at least 2 and at most 48"
    ),
    Case(
        "mps-replicas-49",
        aks(sharing=_mps(49)),
        f"{_SHARING}.inf.mps.replicas",
        "49 is out of bounds",
        "at most 48",
        "time-slicing",
    ),
    Case(
        "mps-replicas-a-text", aks(sharing=_mps("4")), f"{_SHARING}.inf.mps.replicas", '"4" is not a whole number', "at most 48"
    ),
    Case(
        "mps-17-on-volta",
        existing({"gpuModel": "v100-16gb"}, sharing=_mps(17)),
        f"{_SHARING}.inf.mps.replicas",
        "compute capability 7.0",
        "2 to 16",
        "the MPS daemon would not start",
    ),
    Case(
        "mps-on-mig",
        aks(sharing=_mig({"1g.10gb": 7}, mps={"replicas": 4})),
        f"{_SHARING}.cut.mig.mps",
        "MPS cannot share MIG instances",
        "timeSlicing",
        "Use timeSlicing on the instances",
    ),
    Case(
        "mps-beside-mig",
        aks(sharing={"x": {"mig": {"layout": {"1g.10gb": 7}}, "mps": {"replicas": 4}}}),
        f"{_SHARING}.x",
        "mps and mig declared together",
        "exactly one of",
    ),
    Case(
        "mps-with-layout",
        aks(sharing={"x": {"mps": {"replicas": 4, "layout": {}}}}),
        f"{_SHARING}.x.mps.layout",
        "unknown key",
        remedy="`layout` belongs to gpu-pools:sharing.<name>.mig",
    ),
)

_MIG_CASES = (
    Case("mig-a-list", aks(sharing={"x": {"mig": []}}), f"{_SHARING}.x.mig", "a list of 0 is not a mapping"),
    Case(
        "mig-nothing",
        aks(sharing={"x": {"mig": {}}}),
        f"{_SHARING}.x.mig",
        "neither `layout` nor `gpus`",
        "`gpus` for one layout per",
        "layout: {1g.10gb: 7}",
    ),
    Case(
        "mig-layout-and-gpus",
        aks(sharing=_mig({"1g.10gb": 7}, gpus=[{"index": 0, "layout": {"1g.10gb": 7}}])),
        f"{_SHARING}.cut.mig",
        "both `layout` and `gpus`",
        remedy="Keep one of them.",
    ),
    Case(
        "mig-unknown-key",
        aks(sharing=_mig({"1g.10gb": 7}, layouts={})),
        f"{_SHARING}.cut.mig.layouts",
        "unknown key",
        "layout",
        "Remove it: `layout` is written, too.",
    ),
    Case(
        "mig-strategy-misplaced",
        aks(sharing=_mig({"1g.10gb": 7}, migStrategy="single")),
        f"{_SHARING}.cut.mig.migStrategy",
        "unknown key",
        remedy="`migStrategy` belongs to gpu-pools:operator.",
    ),
    Case(
        "mig-layout-empty",
        aks(sharing=_mig({})),
        f"{_SHARING}.cut.mig.layout",
        "the layout is empty",
        "{1g.10gb: 7}",
        "exclusive: {}",
    ),
    Case(
        "mig-layout-a-name",
        aks(sharing={"x": {"mig": {"layout": "all-1g.10gb"}}}),
        f"{_SHARING}.x.mig.layout",
        '"all-1g.10gb" is not a mapping of MIG profile to count',
    ),
    Case(
        "mig-count-0", aks(sharing=_mig({"1g.10gb": 0})), f"{_SHARING}.cut.mig.layout.1g.10gb", "0 is out of bounds", "at least 1"
    ),
    Case(
        "mig-count-a-text",
        aks(sharing={"x": {"mig": {"layout": {"1g.10gb": "7"}}}}),
        f"{_SHARING}.x.mig.layout.1g.10gb",
        '"7" is not a whole number',
    ),
    Case(
        "mig-replicas-on-instances-1",
        aks(sharing=_mig({"1g.10gb": 7}, timeSlicing={"replicas": {"1g.10gb": 1}})),
        f"{_SHARING}.cut.mig.timeSlicing.replicas.1g.10gb",
        "1 is out of bounds",
        "at least 2",
    ),
    Case(
        "mig-time-slicing-replicas-of-another-profile",
        aks(sharing=_mig({"1g.10gb": 7}, timeSlicing={"replicas": {"2g.20gb": 2}})),
        f"{_SHARING}.cut.mig.timeSlicing.replicas.2g.20gb",
        "unknown key",
        "1g.10gb",
    ),
    Case(
        "mig-time-slicing-replicas-of-nothing",
        aks(sharing=_mig({"1g.10gb": 7}, timeSlicing={"replicas": {}})),
        f"{_SHARING}.cut.mig.timeSlicing.replicas",
        "no profile is named",
        "some of 1g.10gb",
    ),
    Case(
        "mig-time-slicing-replicas-null",
        aks(sharing=_mig({"1g.10gb": 7}, timeSlicing={"replicas": {"1g.10gb": None}})),
        f"{_SHARING}.cut.mig.timeSlicing.replicas.1g.10gb",
        "is missing",
        "at least 2",
    ),
    Case(
        "time-slicing-replicas-by-profile-without-mig",
        aks(sharing=_slices({"1g.10gb": 4})),
        f"{_SHARING}.nb.timeSlicing.replicas",
        "a mapping with 1g.10gb is not a whole number",
    ),
    Case(
        "mig-time-slicing-replicas-1",
        aks(sharing=_mig({"1g.10gb": 7}, timeSlicing={"replicas": 1})),
        f"{_SHARING}.cut.mig.timeSlicing.replicas",
        "1 is out of bounds",
        "at least 2",
    ),
    Case(
        "mig-profile-of-another-gpu",
        aks(sharing=_mig({"1g.5gb": 7})),
        f"{_SHARING}.cut.mig.layout.1g.5gb",
        'a100-80gb (pool "gpu") has no MIG profile "1g.5gb"',
        "1g.10gb, 1g.10gb+me, 1g.20gb",
        "Did you mean 1g.10gb? Profile names carry the memory of the GPU.",
    ),
    Case(
        "mig-profile-3g-20gb-on-80gb",
        aks(sharing=_mig({"3g.20gb": 2})),
        f"{_SHARING}.cut.mig.layout.3g.20gb",
        'no MIG profile "3g.20gb"',
        "3g.40gb",
    ),
    Case(
        "mig-3x-3g-40gb",
        aks(sharing=_mig({"3g.40gb": 3})),
        f"{_SHARING}.cut.mig.layout",
        "3x 3g.40gb does not fit on one a100-80gb",
        "2x 3g.40gb",
        "Use e.g. 2x 3g.40gb, or ",
    ),
    Case(
        "mig-8x-1g-10gb",
        aks(sharing=_mig({"1g.10gb": 8})),
        f"{_SHARING}.cut.mig.layout",
        "8x 1g.10gb does not fit",
        "7x 1g.10gb",
        "Use e.g. 7x 1g.10gb, or ",
    ),
    Case(
        "mig-4x-2g-20gb", aks(sharing=_mig({"2g.20gb": 4})), f"{_SHARING}.cut.mig.layout", "4x 2g.20gb does not fit", "3x 2g.20gb"
    ),
    Case(
        "mig-2x-1g-10gb-me",
        aks(sharing=_mig({"1g.10gb+me": 2})),
        f"{_SHARING}.cut.mig.layout",
        "2x 1g.10gb+me does not fit",
        "1x 1g.10gb+me",
    ),
    Case(
        "mig-slices-fit-places-do-not",
        aks(sharing=_mig({"3g.40gb": 2, "1g.10gb": 1})),
        f"{_SHARING}.cut.mig.layout",
        'does not fit on one a100-80gb (pool "gpu"): 1g.10gb covers 1 unit and can start at 0 to 6: however the others are '
        "placed, nothing is free, e.g. beside 3g.40gb at 0-3, 3g.40gb at 4-7",
        remedy="Use e.g. 2x 3g.40gb, or ",
    ),
    Case(
        "mig-a-billion-instances",
        aks(sharing=_mig({"1g.10gb": 1_000_000_000})),
        f"{_SHARING}.cut.mig.layout",
        "does not fit",
        "7x 1g.10gb",
        "Use e.g. 7x 1g.10gb, or ",
    ),
    Case(
        "mig-on-t4",
        aks({"vmSize": T4}, sharing=_mig({"1g.10gb": 7})),
        f"{_POOL}.sharing",
        "vmSize Standard_NC4as_T4_v3 (t4-16gb)",
        "exclusive, timeSlicing or mps",
        "hardware with MIG",
    ),
    Case(
        "mig-index-missing",
        aks({"vmSize": TWO_A100}, sharing=_per_gpu((0, {"1g.10gb": 7}))),
        f"{_SHARING}.cut.mig.gpus",
        "index 1 missing",
        "each index from 0 to 1 once",
        "`layout: {}` leaves a GPU whole",
    ),
    Case(
        "mig-index-beyond",
        aks(sharing=_per_gpu(([0, 1], {"1g.10gb": 7}))),
        f"{_SHARING}.cut.mig.gpus",
        "index 1 beyond the last GPU",
        "each index from 0 to 0",
    ),
    Case(
        "mig-index-twice",
        aks({"vmSize": TWO_A100}, sharing=_per_gpu(([0, 1], {"1g.10gb": 7}), (1, {}))),
        f"{_SHARING}.cut.mig.gpus",
        "GPU index 1 is given twice",
        "once",
        "Remove one of the two entries",
    ),
    Case(
        "mig-index-twice-in-one-entry",
        aks(sharing=_per_gpu(([0, 0], {"1g.10gb": 7}))),
        f"{_SHARING}.cut.mig.gpus",
        "GPU index 0 is given twice",
    ),
    Case(
        "mig-index-negative",
        aks(sharing=_per_gpu((-1, {"1g.10gb": 7}))),
        f"{_SHARING}.cut.mig.gpus[0].index",
        "-1 is not a GPU index",
        "a GPU index from 0",
    ),
    Case(
        "mig-index-a-text",
        aks(sharing=_per_gpu(("0", {"1g.10gb": 7}))),
        f"{_SHARING}.cut.mig.gpus[0].index",
        '"0" is not a GPU index',
    ),
    Case(
        "mig-index-absent",
        aks(sharing={"x": {"mig": {"gpus": [{"layout": {"1g.10gb": 7}}]}}}),
        f"{_SHARING}.x.mig.gpus[0].index",
        "is missing",
        "a list of them",
        "`index: 0`; several are a list, as in [0, 1]",
    ),
    Case(
        "mig-gpus-empty",
        aks(sharing={"x": {"mig": {"gpus": []}}}),
        f"{_SHARING}.x.mig.gpus",
        "the list is empty",
        "{index, layout}",
    ),
    Case(
        "mig-no-gpu-partitioned",
        aks(sharing={"x": {"mig": {"gpus": [{"index": 0, "layout": {}}], "timeSlicing": {"replicas": 2}}}}),
        f"{_SHARING}.x.mig.gpus",
        "no GPU is partitioned",
        "at least one GPU",
        "Use `exclusive: {}`",
    ),
    Case("mig-gpus-nothing", aks(sharing={"x": {"mig": {"gpus": None}}}), f"{_SHARING}.x.mig.gpus", "the list is empty"),
    Case(
        "mig-time-slicing-nothing",
        aks(sharing=_mig({"1g.10gb": 7}, timeSlicing=None)),
        f"{_SHARING}.cut.mig.timeSlicing",
        "nothing is not a mapping",
    ),
    Case(
        "mig-gpus-a-mapping",
        aks(sharing={"x": {"mig": {"gpus": {"index": 0}}}}),
        f"{_SHARING}.x.mig.gpus",
        "is not a list of GPU groups",
        remedy="dash",
    ),
    Case(
        "mig-gpu-layout-does-not-fit",
        aks({"vmSize": TWO_A100}, sharing=_per_gpu((0, {"7g.80gb": 1}), (1, {"7g.80gb": 2}))),
        f"{_SHARING}.cut.mig.gpus[1].layout",
        "2x 7g.80gb does not fit",
        remedy="Use e.g. 7g.80gb, or ",
    ),
)

_POOL_CASES = (
    Case("pools-missing", aks(pools=GONE), "gpu-pools:pools", "is missing", "at least one pool", read_by_engine=False),
    Case("pools-empty", aks(pools=[]), "gpu-pools:pools", "a list of 0 declares no pool", "at least one pool"),
    Case(
        "pools-a-mapping",
        aks(pools={"gpu": {}}),
        "gpu-pools:pools",
        "declares no pool",
        "a list of at least one pool",
        read_by_engine=False,
    ),
    Case(
        "pool-a-text", aks(pools=["gpu"]), _POOL, '"gpu" is not a mapping with name, hardware and sharing', read_by_engine=False
    ),
    Case(
        "pool-size-without-gpu",
        aks({"vmSize": "Standard_D4s_v5"}),
        f"{_POOL}.vmSize",
        '"Standard_D4s_v5" is not a known Azure GPU size',
        "python -m gpu_pools sizes",
        "e.g. Standard_NC4as_T4_v3.",
    ),
    Case(
        "pool-size-mistyped",
        aks({"vmSize": "standard_nc24ads_a100"}),
        f"{_POOL}.vmSize",
        "is not a known Azure GPU size",
        "",
        "Did you mean Standard_NC24ads_A100_v4?",
    ),
    Case(
        "pool-size-of-a-family-that-is-gone",
        aks({"vmSize": "Standard_NV12s_v9"}),
        f"{_POOL}.vmSize",
        "is not a known Azure GPU size",
        "",
        "e.g. Standard_NV36ads_A10_v5.",
    ),
    Case(
        "pool-size-declared-without-number",
        aks({"vmSize": "Standard_ND40rs_v2", "gpuModel": "v100-32gb"}),
        f"{_POOL}.vmSize",
        '"Standard_ND40rs_v2" is not a known Azure GPU size',
        "gpuModel and gpusPerNode beside it",
    ),
    Case(
        "pool-size-declared-without-model",
        aks({"vmSize": "Standard_ND40rs_v2", "gpusPerNode": 8}),
        f"{_POOL}.vmSize",
        '"Standard_ND40rs_v2" is not a known Azure GPU size',
        "gpuModel and gpusPerNode beside it",
    ),
    Case(
        "pool-size-declared-with-unknown-model",
        aks({"vmSize": "Standard_ND40rs_v2", "gpuModel": "v100-32g", "gpusPerNode": 8}),
        f"{_POOL}.gpuModel",
        '"v100-32g" is not a known GPU model',
        "`python -m gpu_pools models` lists",
        "Did you mean v100-32gb or v100-16gb?",
    ),
    Case(
        "pool-size-declared-with-too-many",
        aks({"vmSize": "Standard_ND40rs_v2", "gpuModel": "v100-32gb", "gpusPerNode": 17}),
        f"{_POOL}.gpusPerNode",
        "17 is out of bounds",
        "at most 16",
    ),
    Case(
        "pool-size-declared-twice",
        aks(
            pools=[
                {
                    "name": "a",
                    "vmSize": "Standard_ND40rs_v2",
                    "gpuModel": "v100-32gb",
                    "gpusPerNode": 8,
                    "count": 1,
                    "sharing": "whole",
                },
                {
                    "name": "b",
                    "vmSize": "STANDARD_ND40RS_V2",
                    "gpuModel": "v100-16gb",
                    "gpusPerNode": 8,
                    "count": 1,
                    "sharing": "whole",
                },
            ]
        ),
        "gpu-pools:pools[1].gpuModel",
        "STANDARD_ND40RS_V2 has 8 x v100-16gb here and 8 x v100-32gb in gpu-pools:pools[0]",
        "the same of all pools of a size",
    ),
    Case(
        "pool-size-declared-not-azure",
        aks({"vmSize": "g2.5xlarge", "gpuModel": "v100-32gb", "gpusPerNode": 1}),
        f"{_POOL}.vmSize",
        '"g2.5xlarge" is not a known Azure GPU size',
        "another Standard_…",
    ),
    Case(
        "pool-size-known-with-another-model",
        aks({"gpuModel": "h100-80gb"}),
        f"{_POOL}.gpuModel",
        "Standard_NC24ads_A100_v4 has a100-80gb, not h100-80gb",
        "a100-80gb",
        "Leave it out",
    ),
    Case(
        "pool-size-known-with-another-number",
        aks({"vmSize": "standard_nc24ads_a100_V4", "gpusPerNode": 2}),
        f"{_POOL}.gpusPerNode",
        "Standard_NC24ads_A100_v4 has 1, not 2",
        "1",
        "Leave it out",
    ),
    Case(
        "pool-size-retired-in-another-case-and-declared",
        aks({"vmSize": "standard_nc6S_v3", "gpuModel": "v100-16gb", "gpusPerNode": 1}),
        f"{_POOL}.vmSize",
        "was retired by Azure on 2025-09-30",
    ),
    Case(
        "pool-size-model-a-number",
        aks({"gpuModel": 100}),
        f"{_POOL}.gpuModel",
        "100 is not a text",
    ),
    Case(
        "operator-oci-under-repository",
        aks(operator={"chart": {"repository": "oci://mirror.example.com/gpu-operator"}}),
        "gpu-pools:operator.chart.repository",
        "does not fit",
        "the URL of a Helm repository",
        "Write it under `oci`: `chart: {oci: oci://mirror.example.com/gpu-operator}`.",
    ),
    Case(
        "nfd-url-under-oci",
        aks(nodeFeatureDiscovery={"chart": {"oci": "https://mirror.example.com/charts"}}),
        "gpu-pools:nodeFeatureDiscovery.chart.oci",
        "does not fit",
        "an oci:// reference",
        "Write it under `repository`",
    ),
    Case("pool-unknown-key", aks({"lables": {}}), f"{_POOL}.lables", "unknown key", "labels", "Did you mean `labels`?"),
    Case(
        "pool-misplaced-replicas",
        aks({"replicas": 4}),
        f"{_POOL}.replicas",
        "unknown key",
        "",
        "gpu-pools:sharing.<name>.timeSlicing",
    ),
    Case(
        "pool-flavor-on-aks",
        aks({"flavor": "g2.5xlarge"}),
        f"{_POOL}.flavor",
        "unknown key",
        "vmSize",
        "a pool of a Magnum cluster",
    ),
    Case("pool-size-on-magnum", magnum({"vmSize": A100}), f"{_POOL}.vmSize", "unknown key", "flavor", "a pool of an AKS cluster"),
    Case(
        "pool-selector-on-aks",
        aks({"nodeSelector": {"a": "b"}}),
        f"{_POOL}.nodeSelector",
        "unknown key",
        "",
        "an existing cluster",
    ),
    Case("pool-name-missing", aks({"name": GONE}), f"{_POOL}.name", "is missing", "1 to 12"),
    Case(
        "pool-name-13-characters",
        aks({"name": "abcdefghijklm"}),
        f"{_POOL}.name",
        '"abcdefghijklm" does not fit',
        "1 to 12 lower-case",
        "never cut",
    ),
    Case("pool-name-with-dash-on-aks", aks({"name": "gpu-1"}), f"{_POOL}.name", '"gpu-1" does not fit', "letters and digits"),
    Case("pool-image-empty", magnum({"image": ""}), f"{_POOL}.image", '"" does not fit', "1 to 255"),
    Case("pool-name-upper-case", magnum({"name": "GPU"}), f"{_POOL}.name", '"GPU" does not fit', "lower-case"),
    Case("pool-name-a-number", aks({"name": 7}), f"{_POOL}.name", "7 is not a text", "1 to 12"),
    Case(
        "pool-name-twice",
        aks(pools=_two_pools({}, {"name": "one"})),
        "gpu-pools:pools[1].name",
        '"one" is already the name of gpu-pools:pools[0]',
        "no other pool has",
        "Rename one",
    ),
    Case(
        "pool-name-default-worker",
        magnum({"name": "default-worker"}),
        f"{_POOL}.name",
        "a node group that Magnum makes itself",
        "any other name",
        "Rename the pool",
    ),
    Case("pool-no-sharing", aks({"sharing": GONE}), f"{_POOL}.sharing", "is missing", "whole", "Add `sharing: <name>`"),
    Case(
        "pool-unknown-sharing",
        aks({"sharing": "hole"}),
        f"{_POOL}.sharing",
        '"hole" is unknown',
        "whole",
        "Did you mean `whole`?",
    ),
    Case(
        "pool-inline-sharing",
        aks({"sharing": {"exclusive": {}}}),
        f"{_POOL}.sharing",
        "written into the pool",
        "the name of a declaration",
        "Move it to gpu-pools:sharing",
    ),
    Case("pool-no-size", aks({"vmSize": GONE}), f"{_POOL}.vmSize", "is missing", remedy="Name the VM size"),
    Case(
        "pool-unknown-size",
        aks({"vmSize": "Standard_NC24ads_A100_v5"}),
        f"{_POOL}.vmSize",
        "not a known Azure GPU size",
        remedy="Standard_NC24ads_A100_v4",
    ),
    Case(
        "pool-retired-size",
        aks({"vmSize": "Standard_NC6s_v3"}),
        f"{_POOL}.vmSize",
        "was retired by Azure on 2025-09-30",
        remedy="Use another size",
    ),
    Case(
        "pool-fraction-of-a-gpu",
        aks({"vmSize": "Standard_NV6ads_A10_v5"}),
        f"{_POOL}.vmSize",
        "has 1/6 of a GPU",
        "whole GPUs",
        "Standard_NV36ads_A10_v5",
    ),
    Case(
        "pool-count-and-nodes", aks({"nodes": {"min": 0, "max": 2}}), _POOL, "both `count` and `nodes`", "`count: 2`", "Keep one"
    ),
    Case(
        "pool-neither-count-nor-nodes", aks({"count": GONE}), _POOL, "neither `count` nor `nodes`", "{min: 0, max: 4}", "Add one"
    ),
    Case("pool-count-negative", aks({"count": -1}), f"{_POOL}.count", "-1 is out of bounds", "at least 0"),
    Case("pool-count-a-text", aks({"count": "2"}), f"{_POOL}.count", '"2" is not a whole number'),
    Case("pool-count-float", magnum({"count": 2.0}), f"{_POOL}.count", "2.0 is not a whole number", read_by_engine=False),
    Case("pool-count-true", aks({"count": True}), f"{_POOL}.count", "true is not a whole number"),
    Case("pool-too-many-nodes", aks({"count": 1001}), f"{_POOL}.count", "1001 is out of bounds", "at most 1000"),
    Case(
        "pool-min-above-max",
        aks({"count": GONE, "nodes": {"min": 3, "max": 2}}),
        f"{_POOL}.nodes",
        "min 3 is greater than max 2",
        "min <= max",
    ),
    Case(
        "pool-min-negative", magnum({"count": GONE, "nodes": {"min": -1, "max": 2}}), f"{_POOL}.nodes.min", "-1 is out of bounds"
    ),
    Case(
        "pool-max-0",
        aks({"count": GONE, "nodes": {"min": 0, "max": 0}}),
        f"{_POOL}.nodes.max",
        "0 is out of bounds",
        "at least 1",
    ),
    Case("pool-max-missing", aks({"count": GONE, "nodes": {"min": 1}}), f"{_POOL}.nodes.max", "is missing", "a whole number"),
    Case(
        "pool-nodes-unknown-key",
        aks({"count": GONE, "nodes": {"min": 1, "max": 2, "desired": 1}}),
        f"{_POOL}.nodes.desired",
        "unknown key",
        "max, min",
    ),
    Case("pool-nodes-a-number", aks({"count": GONE, "nodes": 3}), f"{_POOL}.nodes", "3 is not a mapping with min and max"),
    Case("pool-zone-a-number", aks({"zones": [1]}), f"{_POOL}.zones[0]", "1 is not a zone", "in quotes"),
    Case("pool-zone-a-list", aks({"zones": [["1"]]}), f"{_POOL}.zones[0]", "is not a zone", "in quotes"),
    Case("pool-zones-a-text", aks({"zones": "1"}), f"{_POOL}.zones", "is not a list", remedy="dash"),
    Case("pool-spot-true", aks({"spot": True}), f"{_POOL}.spot", "true is not a mapping with maxPrice"),
    Case("pool-spot-unknown-key", aks({"spot": {"price": 1}}), f"{_POOL}.spot.price", "unknown key", "maxPrice"),
    Case("pool-spot-free", aks({"spot": {"maxPrice": 0}}), f"{_POOL}.spot.maxPrice", "0 is not a price", "more than 0"),
    Case(
        "pool-spot-not-a-number",
        aks({"spot": {"maxPrice": float("nan")}}),
        f"{_POOL}.spot.maxPrice",
        "is not a number",
        "at least -1",
        read_by_engine=False,
    ),
    Case(
        "pool-os-unknown", aks({"osSku": "Windows2022"}), f"{_POOL}.osSku", '"Windows2022" is unknown', "Ubuntu2404 | AzureLinux"
    ),
    Case("pool-driver-unknown", aks({"driver": "nobody"}), f"{_POOL}.driver", '"nobody" is unknown', "operator | preinstalled"),
    Case(
        "pool-flavor-undeclared",
        magnum({"flavor": "g2.xlarge"}),
        f"{_POOL}.flavor",
        '"g2.xlarge" is unknown',
        "g2.5xlarge",
        "Declare the flavor under gpu-pools:flavors",
    ),
    Case(
        "pool-no-flavors-at-all",
        magnum(
            flavors=GONE,
            pools=[{"name": name, "flavor": "g2.5xlarge", "count": 1, "sharing": "whole"} for name in ("one", "two")],
        ),
        "gpu-pools:flavors",
        "is missing",
        "gpuModel and gpusPerNode",
        "Declare g2.5xlarge there",
    ),
    Case(
        "flavor-without-model",
        magnum(flavors={"g2.5xlarge": {"gpusPerNode": 1}}),
        "gpu-pools:flavors.g2.5xlarge.gpuModel",
        "is missing",
        "`python -m gpu_pools models` lists",
    ),
    Case(
        "flavor-unknown-key",
        magnum(flavors={"g2.5xlarge": {"gpuModel": "a100-40gb", "gpusPerNode": 1, "gpus": 1}}),
        "gpu-pools:flavors.g2.5xlarge.gpus",
        "unknown key",
        "gpusPerNode",
        "Did you mean",
    ),
    Case(
        "flavor-a-text",
        magnum(flavors={"g2.5xlarge": "a100-40gb"}),
        "gpu-pools:flavors.g2.5xlarge",
        "is not a mapping with gpuModel and gpusPerNode",
    ),
    Case(
        "model-unknown",
        existing({"gpuModel": "a100-80g"}),
        f"{_POOL}.gpuModel",
        '"a100-80g" is not a known GPU model',
        "`python -m gpu_pools models` lists",
        "Did you mean a100-80gb or a100-40gb?",
    ),
    Case(
        "model-by-its-series-alone",
        existing({"gpuModel": "h100"}),
        f"{_POOL}.gpuModel",
        '"h100" is not a known GPU model',
        "`python -m gpu_pools models` lists",
        "Did you mean h100-80gb or h100-94gb or h100-96gb?",
    ),
    Case(
        "model-of-another-line",
        existing({"gpuModel": "NVIDIA GeForce RTX 4090"}),
        f"{_POOL}.gpuModel",
        '"NVIDIA GeForce RTX 4090" is not a known GPU model',
        "`python -m gpu_pools models` lists",
        "Declare it under gpu-pools:gpuModels",
    ),
    Case(
        "model-that-is-a-vgpu",
        existing({"gpuModel": "NVIDIA A40-8Q"}),
        f"{_POOL}.gpuModel",
        '"NVIDIA A40-8Q" is not a known GPU model',
        "`python -m gpu_pools models` lists",
        "Declare the vGPU under gpu-pools:gpuModels",
    ),
    Case(
        "model-unknown-and-number-missing",
        existing({"gpuModel": "a100-80g", "gpusPerNode": GONE}),
        f"{_POOL}.gpuModel",
        '"a100-80g" is not a known GPU model',
        problems=2,
    ),
    Case("model-missing", existing({"gpuModel": GONE}), f"{_POOL}.gpuModel", "is missing", "models` lists", "Name the GPU model"),
    Case(
        "gpus-per-node-0", existing({"gpusPerNode": 0}), f"{_POOL}.gpusPerNode", "0 is out of bounds", "at least 1 and at most 16"
    ),
    Case("gpus-per-node-17", existing({"gpusPerNode": 17}), f"{_POOL}.gpusPerNode", "17 is out of bounds", "at most 16"),
    Case("gpus-per-node-missing", existing({"gpusPerNode": GONE}), f"{_POOL}.gpusPerNode", "is missing"),
    Case("selector-missing", existing({"nodeSelector": GONE}), f"{_POOL}.nodeSelector", "is missing", "at least one node label"),
    Case("selector-empty", existing({"nodeSelector": {}}), f"{_POOL}.nodeSelector", "is missing", "at least one node label"),
    Case(
        "selectors-equal",
        existing(pools=_two_selectors({"a": "b"}, {"a": "b"})),
        "gpu-pools:pools[1].nodeSelector",
        'selects nodes of pool "one" too',
        "no node matches two",
        "Add a label",
    ),
    Case(
        "selectors-overlap",
        existing(pools=_two_selectors({"a": "b", "c": "d"}, {"a": "b"})),
        "gpu-pools:pools[1].nodeSelector",
        'selects nodes of pool "one" too',
    ),
)

_LABEL_CASES = (
    Case("labels-a-list", aks({"labels": ["a"]}), f"{_POOL}.labels", "a list of 1 is not a mapping of texts"),
    Case(
        "label-value-a-number",
        aks({"labels": {"tier": 4}}),
        f"{_POOL}.labels.tier",
        "4 is not a text",
        remedy='Write "4" in quotes.',
    ),
    Case(
        "label-value-too-long", aks({"labels": {"tier": "x" * 64}}), f"{_POOL}.labels.tier", "is not a label value", "at most 63"
    ),
    Case(
        "label-value-with-blank",
        aks({"labels": {"tier": "a b"}}),
        f"{_POOL}.labels.tier",
        '"a b" is not a label value',
        "letters, digits",
    ),
    Case(
        "label-key-with-blank", aks({"labels": {"a b": "c"}}), f"{_POOL}.labels.a b", '"a b" is not a label key', "[prefix/]name"
    ),
    Case("label-of-the-plan", aks({"labels": {"gpu-pools/pool": "x"}}), f"{_POOL}.labels.gpu-pools/pool", "set by the plan"),
    Case(
        "label-of-the-operator",
        aks({"labels": {"nvidia.com/gpu.product": "x"}}),
        f"{_POOL}.labels.nvidia.com/gpu.product",
        "set by the plan or by the GPU operator",
        "nvidia.com/gpu.deploy.",
        "follows from `sharing`",
    ),
    Case(
        "label-that-names-a-config",
        aks({"labels": {"nvidia.com/device-plugin.config": "x"}}),
        f"{_POOL}.labels.nvidia.com/device-plugin.config",
        "set by the plan",
    ),
    Case(
        "label-reserved-by-aks",
        aks({"labels": {"kubernetes.azure.com/x": "y"}}),
        f"{_POOL}.labels.kubernetes.azure.com/x",
        "reserved by AKS",
        "any prefix but kubernetes.azure.com/",
        "AKS refuses the whole pool otherwise",
    ),
    Case("label-below-k8s-io-on-aks", aks({"labels": {"k8s.io/x": "y"}}), f"{_POOL}.labels.k8s.io/x", "no kubelet may set"),
    Case(
        "label-deep-below-k8s-io-on-aks",
        aks({"labels": {"a.b.k8s.io/x": "y"}}),
        f"{_POOL}.labels.a.b.k8s.io/x",
        "below k8s.io but those of node, kubelet, node-role",
        "k8s.io/",
        "example.com/team",
    ),
    Case(
        "label-deep-below-kubernetes-azure-com",
        aks({"labels": {"a.kubernetes.azure.com/x": "y"}}),
        f"{_POOL}.labels.a.kubernetes.azure.com/x",
        "reserved by AKS",
    ),
    Case(
        "label-that-a-manager-must-pause-on-aks",
        aks({"labels": {"nvidia.com/gpu.deploy.dcgm": "true"}}),
        f"{_POOL}.labels.nvidia.com/gpu.deploy.dcgm",
        "could not be paused",
        '"false"',
        "Leave the label out",
    ),
    Case(
        "taint-reserved-by-aks",
        aks({"taints": ["sku=gpu:NoSchedule", "kubernetes.azure.com/x=y:NoSchedule"]}),
        f"{_POOL}.taints[1]",
        "which keeps the prefix kubernetes.azure.com for itself",
        "sku=gpu:NoSchedule",
        "spot: {}",
    ),
    Case(
        "taint-of-spot-on-a-pool-that-is-none",
        aks({"taints": ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]}),
        f"{_POOL}.taints[0]",
        "refused by AKS",
        "sku=gpu:NoSchedule",
        "spot: {}",
    ),
    Case(
        "label-unprefixed-on-magnum",
        magnum({"labels": {"team": "a"}}),
        f"{_POOL}.labels.team",
        "NFD sets no key without a prefix",
        "example.com/team",
        "new nodes get them too",
    ),
    Case("label-unprefixed-on-existing", existing({"labels": {"team": "a"}}), f"{_POOL}.labels.team", "cannot reach the nodes"),
    Case(
        "label-below-kubernetes-io",
        existing({"labels": {"node.kubernetes.io/x": "a"}}),
        f"{_POOL}.labels.node.kubernetes.io/x",
        "NFD sets no key below kubernetes.io",
    ),
    Case("taints-a-text", aks({"taints": "sku=gpu:NoSchedule"}), f"{_POOL}.taints", "is not a list of taints", remedy="dash"),
    Case(
        "taint-without-effect",
        aks({"taints": ["sku=gpu"]}),
        f"{_POOL}.taints[0]",
        '"sku=gpu" is not a taint',
        "key=value:Effect",
        "sku=gpu:NoSchedule",
    ),
    Case(
        "taint-bad-effect",
        aks({"taints": ["sku=gpu:NoScheduling"]}),
        f"{_POOL}.taints[0]",
        "is not a taint",
        "NoSchedule, PreferNoSchedule",
    ),
    Case(
        "taint-a-mapping",
        aks({"taints": [{"key": "sku", "effect": "NoSchedule"}]}),
        f"{_POOL}.taints[0]",
        "is not a taint",
    ),
    Case("taint-a-number", aks({"taints": ["sku=gpu:NoSchedule", 7]}), f"{_POOL}.taints[1]", "7 is not a taint"),
    Case("taint-bad-key", aks({"taints": ["s ku=gpu:NoSchedule"]}), f"{_POOL}.taints[0]", "is not a taint"),
    Case("taint-empty", aks({"taints": [""]}), f"{_POOL}.taints[0]", '"" is not a taint'),
    Case(
        "taint-twice",
        aks({"taints": ["sku=gpu:NoSchedule", "sku=other:NoSchedule"]}),
        f"{_POOL}.taints",
        '"sku" is given twice with the effect NoSchedule',
        "each key once per effect",
        "Remove one",
    ),
    Case(
        "taint-that-nfd-refuses",
        magnum(
            {"taints": ["sku=gpu:NoSchedule"]},
            cluster={"driver": "capi-helm"},
            operator={"install": True},
            nodeFeatureDiscovery={"install": True},
        ),
        f"{_POOL}.taints[0]",
        "the driver capi-helm sets no taints",
        "nvidia.com/gpu=true:NoSchedule",
        "heat driver",
    ),
)

_CAPI = {"driver": "capi-helm"}
_ADOPTED = {"install": False}

_ADOPTION_CASES = (
    Case(
        "capi-helm-without-a-word-on-its-operator",
        magnum(cluster=_CAPI, nodeFeatureDiscovery=_ADOPTED),
        f"{_OPERATOR}.install",
        "is not said, and clusters of the driver capi-helm come with NVIDIA's GPU operator",
        "false to use what is there",
        "Write `install: false`",
        deploy_only=True,
    ),
    Case(
        "cluster-api-with-the-network-flannel",
        magnum(
            cluster={"driver": "magnum-cluster-api", "templateId": GONE, "template": {**TEMPLATE, "networkDriver": "flannel"}}
        ),
        "gpu-pools:cluster.template.networkDriver",
        'the driver magnum-cluster-api fails on "flannel" (W81)',
        "calico or cilium",
        "Write `networkDriver: cilium`",
    ),
    Case(
        "capi-helm-without-a-word-on-its-nfd",
        magnum(cluster=_CAPI, operator={"install": True}),
        "gpu-pools:nodeFeatureDiscovery.install",
        "come with Node Feature Discovery",
        "true where the cloud's operators have switched it off",
        deploy_only=True,
    ),
    *(
        Case(
            f"capi-helm-with-autoscaler-and-a-pool-that-may-be-empty-{field}",
            magnum(
                pool,
                cluster={**_CAPI, **labels},
                operator={"install": True},
                nodeFeatureDiscovery={"install": True},
            ),
            f"{_POOL}.{field}",
            "0 is too few for the driver capi-helm",
            "1 or more",
            "Ask for one node at least",
        )
        for field, pool, labels in (
            ("count", {"count": 0}, {"labels": {"auto_scaling_enabled": "true"}}),
            (
                "nodes.min",
                {"count": GONE, "nodes": {"min": 0, "max": 2}},
                {"templateId": GONE, "template": {**TEMPLATE, "labels": {"auto_scaling_enabled": "True"}}},
            ),
        )
    ),
    Case("operator-install-a-text", aks(operator={"install": "no"}), f"{_OPERATOR}.install", "neither true nor false"),
    *(
        Case(
            f"operator-that-is-there-with-{key}",
            existing(operator={**_ADOPTED, key: value}),
            f"{_OPERATOR}.{key}",
            "has no effect on an operator that is there already",
            "driver and migStrategy",
            "write `install: true`",
        )
        for key, value in (
            ("version", "v26.7.0"),
            ("chart", {"path": "gpu-operator.tgz"}),
            ("values", {"dcgm": {"enabled": True}}),
        )
    ),
    Case(
        "operator-that-is-there-on-aks",
        aks(operator=_ADOPTED),
        f"{_OPERATOR}.install",
        "an AKS cluster that the stack makes comes without GPU operator",
        "left out",
    ),
    Case(
        "operator-that-is-there-with-mps-beside-mixed-mig",
        existing(
            operator=_ADOPTED,
            sharing={"cut": {"mig": {"layout": dict(_MIXED)}}, "inf": {"mps": {"replicas": 2}}},
            pools=[
                {"name": "a", "gpuModel": "a100-80gb", "gpusPerNode": 1, "nodeSelector": {"pool": "a"}, "sharing": "cut"},
                {"name": "b", "gpuModel": "a100-80gb", "gpusPerNode": 1, "nodeSelector": {"pool": "b"}, "sharing": "inf"},
            ],
        ),
        f"{_OPERATOR}.install",
        "MPS beside mixed MIG needs a ClusterPolicy that names no MIG strategy",
        "a stack without that combination",
        "time-slicing",
    ),
)

_OPERATOR_CASES = (
    Case("operator-a-list", aks(operator=[]), _OPERATOR, "a list of 0 is not a mapping", read_by_engine=False),
    Case(
        "operator-unknown-key",
        aks(operator={"migstrategy": "single"}),
        f"{_OPERATOR}.migstrategy",
        "unknown key",
        "migStrategy",
        "Did you mean `migStrategy`?",
    ),
    Case(
        "operator-driver-unknown",
        aks(operator={"driver": "aks"}),
        f"{_OPERATOR}.driver",
        '"aks" is unknown',
        "operator | preinstalled",
    ),
    Case(
        "operator-strategy-none",
        aks(operator={"migStrategy": "none"}),
        f"{_OPERATOR}.migStrategy",
        '"none" is unknown',
        "single | mixed",
        "Leave it out",
    ),
    Case(
        "operator-single-with-mixed-layout",
        aks(sharing=_mig(_MIXED), operator={"migStrategy": "single"}),
        f"{_OPERATOR}.migStrategy",
        '"single" does not fit pool "gpu"',
        "mixed, or leave it out",
        "the node advertises nothing",
    ),
    Case(
        "operator-single-with-a-whole-gpu",
        aks({"vmSize": TWO_A100}, sharing=_per_gpu((0, {"1g.10gb": 7}), (1, {})), operator={"migStrategy": "single"}),
        f"{_OPERATOR}.migStrategy",
        '"single" does not fit pool "gpu"',
        "mixed",
    ),
    Case(
        "operator-unknown-version",
        aks(operator={"version": "v25.3.0"}),
        f"{_OPERATOR}.version",
        '"v25.3.0" is unknown',
        "v26.7.0",
        "valuesFile",
    ),
    Case(
        "operator-version-too-old-for-media-under-mixed",
        aks(
            sharing={"whole": {"mig": {"gpus": [{"index": [0], "layout": {"1g.10gb+me": 1, "1g.10gb": 6}}]}}},
            operator={"version": "v26.3.3"},
        ),
        f"{_OPERATOR}.version",
        'it brings devicePlugin v0.19.3, which is too old for pool "gpu"',
        "0.20.0 or newer",
        "newer version of the operator",
    ),
    Case(
        "operator-value-that-an-older-chart-lacks",
        aks(operator={"version": "v25.10.1", "values": {"cdi": {"nriPluginEnabled": True}}}),
        f"{_OPERATOR}.values.cdi.nriPluginEnabled",
        "the chart gpu-operator v25.10.1 has no value `cdi.nriPluginEnabled`",
        "enabled",
    ),
    Case(
        "operator-values-file-gone",
        aks(operator={"version": "v26.9.0", "valuesFile": "/nowhere/values.yaml"}),
        f"{_OPERATOR}.valuesFile",
        "cannot be read: No such file",
        "a chart's default values",
        "helm show values",
    ),
    Case(
        "operator-values-file-without-version",
        aks(operator={"valuesFile": "/dev/null"}),
        f"{_OPERATOR}.version",
        "is missing",
        "v26.9.0",
        problems=2,
    ),
    Case(
        "existing-kubeconfig-twice",
        existing(cluster={"kubeconfig": "/etc/k", "kubeconfigContent": "apiVersion: v1"}),
        f"{_CLUSTER}.kubeconfigContent",
        "stands beside `kubeconfig`",
        "one of the two",
    ),
    Case(
        "registry-url-for-a-mirror",
        aks(registry={"mirror": "https://registry.example.com/mirror/"}),
        "gpu-pools:registry.mirror",
        "https://registry.example.com/mirror/",
        "registry.example.com/mirror",
        "Leave out https://",
    ),
    Case(
        "registry-user-without-password",
        aks(registry={"mirror": "registry.example.com", "username": "robot"}),
        "gpu-pools:registry",
        "has one of username and password",
        "both, or neither",
    ),
    Case(
        "registry-user-of-nowhere",
        aks(registry={"username": "robot", "password": "hunter2"}),
        "gpu-pools:registry.mirror",
        "is missing",
        "the registry that the user is of",
    ),
    Case(
        "registry-password-that-is-no-text",
        aks(registry={"mirror": "registry.example.com", "username": "robot", "password": 123456}),
        "gpu-pools:registry.password",
        "is not a text",
        "a secret text",
        "config set --secret",
    ),
    Case(
        "operator-two-sources",
        aks(operator={"chart": {"oci": "oci://mirror/gpu-operator", "path": "charts/gpu-operator.tgz"}}),
        f"{_OPERATOR}.chart",
        "names several sources",
        "exactly one of repository, oci, path",
        "Keep one.",
    ),
    Case("operator-no-source", aks(operator={"chart": {}}), f"{_OPERATOR}.chart", "names no source"),
    Case(
        "operator-source-unknown-key",
        aks(operator={"chart": {"path": "x.tgz", "repo": "y"}}),
        f"{_OPERATOR}.chart.repo",
        "unknown key",
        "repository",
    ),
    Case(
        "operator-source-not-a-url",
        aks(operator={"chart": {"repository": "ngc"}}),
        f"{_OPERATOR}.chart.repository",
        '"ngc" does not fit',
        "the URL of a Helm repository",
    ),
    Case(
        "operator-values-a-list",
        aks(operator={"values": ["a"]}),
        f"{_OPERATOR}.values",
        "a list of 1 is not a mapping",
        "chart values",
    ),
    Case(
        "operator-version-a-list",
        aks(operator={"values": {"migManager": {"version": [0, 15]}}}),
        f"{_OPERATOR}.values.migManager.version",
        "a list of 2 is not a version",
        "the tag or the digest of an image",
        "write a tag in quotes",
    ),
    Case(
        "operator-version-a-flag",
        aks(operator={"values": {"driver": {"version": True}}}),
        f"{_OPERATOR}.values.driver.version",
        "true is not a version",
        "the tag or the digest of an image",
        "Leave it out",
    ),
    Case(
        "operator-value-typo",
        aks(operator={"values": {"driver": {"verzion": "580"}}}),
        f"{_OPERATOR}.values.driver.verzion",
        "the chart gpu-operator v26.7.0 has no value `driver.verzion`",
        "version",
        "Did you mean `version`?",
    ),
    Case(
        "operator-value-unknown",
        aks(operator={"values": {"xyzzy": 1}}),
        f"{_OPERATOR}.values.xyzzy",
        "has no value `xyzzy`",
        "driver",
        "Helm would silently ignore it",
    ),
    Case(
        "operator-value-derived",
        aks(operator={"values": {"mig": {"strategy": "mixed"}}}),
        f"{_OPERATOR}.values.mig.strategy",
        "`mig.strategy` is derived from the pools",
        "any other value",
        "gpu-pools:operator.migStrategy",
    ),
    *(
        Case(
            f"operator-value-derived-{operand}-{kind}",
            aks(
                operator={
                    "values": {operand: {kind: [{"name": "MIG_STRATEGY", "value": "none"}] if kind == "env" else [argument]}}
                }
            ),
            f"{_OPERATOR}.values.{operand}.{kind}[0]",
            "is derived from the pools",
            remedy="it would win",
            # Arguments are one too many as such (W47).
            problems=2 if kind == "args" else 1,
        )
        for operand, kind, argument in (
            ("devicePlugin", "env", ""),
            ("gfd", "env", ""),
            ("devicePlugin", "args", "--mig-strategy=none"),
        )
    ),
    Case(
        "operator-value-no-choice",
        aks(operator={"values": {"driver": {"kernelModuleType": "opened"}}}),
        f"{_OPERATOR}.values.driver.kernelModuleType",
        'refuses "opened"',
        "auto | open | proprietary",
    ),
    Case(
        "operator-value-that-the-chart-refuses",
        aks(operator={"driver": "preinstalled", "values": {"cdi": {"nriPluginEnabled": True}}}),
        f"{_OPERATOR}.values.cdi.nriPluginEnabled",
        "needs toolkit.enabled",
    ),
    Case(
        "operator-value-derived-mapping",
        aks(operator={"values": {"devicePlugin": {"config": {"default": "x"}}}}),
        f"{_OPERATOR}.values.devicePlugin.config",
        "is derived from the pools",
        remedy="gpu-pools:sharing",
    ),
    Case(
        "operator-value-derived-false",
        aks(operator={"values": {"driver": {"enabled": False}}}),
        f"{_OPERATOR}.values.driver.enabled",
        "is derived from the pools",
        remedy="gpu-pools:operator.driver",
    ),
    Case(
        "operator-value-derived-tolerations",
        aks(operator={"values": {"daemonsets": {"tolerations": []}}}),
        f"{_OPERATOR}.values.daemonsets.tolerations",
        "is derived from the pools",
        remedy="taints of the pools",
    ),
    Case(
        "operator-value-derived-null",
        aks(operator={"values": {"driver": {"enabled": None}}}),
        f"{_OPERATOR}.values.driver.enabled",
        "is derived from the pools",
    ),
    Case(
        "operator-value-mapping-erased",
        aks(operator={"values": {"mig": None}}),
        f"{_OPERATOR}.values.mig",
        "is not a mapping",
        "strategy",
    ),
    Case(
        "operator-value-not-a-mapping",
        aks(operator={"values": {"toolkit": False}}),
        f"{_OPERATOR}.values.toolkit",
        "false is not a mapping",
        "enabled",
    ),
    Case(
        "nfd-unknown-key",
        aks(nodeFeatureDiscovery={"instal": True}),
        "gpu-pools:nodeFeatureDiscovery.instal",
        "unknown key",
        "install",
        "Did you mean `install`?",
    ),
    Case(
        "nfd-install-a-text",
        aks(nodeFeatureDiscovery={"install": "no"}),
        "gpu-pools:nodeFeatureDiscovery.install",
        "neither true nor false",
    ),
    Case(
        "nfd-unknown-version",
        aks(nodeFeatureDiscovery={"version": "0.18.3"}),
        "gpu-pools:nodeFeatureDiscovery.version",
        '"0.18.3" is unknown',
        "0.19.0",
    ),
    Case(
        "nfd-value-derived",
        aks(nodeFeatureDiscovery={"values": {"worker": {"tolerations": []}}}),
        "gpu-pools:nodeFeatureDiscovery.values.worker.tolerations",
        "is derived from the pools",
        remedy="taints of the pools",
    ),
    Case(
        "nfd-value-typo",
        aks(nodeFeatureDiscovery={"values": {"wroker": {}}}),
        "gpu-pools:nodeFeatureDiscovery.values.wroker",
        "has no value `wroker`",
        "worker",
        "Did you mean `worker`?",
    ),
    Case(
        "verification-unknown-key",
        aks(verification={"deadline": 60}),
        "gpu-pools:verification.deadline",
        "unknown key",
        "deadlineSeconds",
        "Did you mean `deadlineSeconds`?",
    ),
    Case("adopted-a-text", aks({"adopted": "yes"}), f"{_POOL}.adopted", "neither true nor false"),
    Case("adopted-nodes-of-an-existing-cluster", existing({"adopted": True}), f"{_POOL}.adopted", "unknown key"),
    Case("minimum-a-text", aks({"minimum": "570"}), f"{_POOL}.minimum", "is not a mapping", "a mapping with driver or cuda"),
    Case(
        "minimum-driver-a-number",
        aks({"minimum": {"driver": 570.124}}),
        f"{_POOL}.minimum.driver",
        "570.124 is not a text",
        'e.g. "570.124.06"',
    ),
    Case("minimum-driver-no-version", aks({"minimum": {"driver": "R570"}}), f"{_POOL}.minimum.driver", '"R570" does not fit'),
    Case("minimum-cuda-with-a-patch", aks({"minimum": {"cuda": "12.8.1"}}), f"{_POOL}.minimum.cuda", "does not fit", '"12.8"'),
    Case(
        "minimum-unknown-key",
        aks({"minimum": {"cudaVersion": "12.8"}}),
        f"{_POOL}.minimum.cudaVersion",
        "unknown key",
        "cuda, driver",
    ),
    Case(
        "minimum-newer-than-the-pinned-driver",
        aks({"minimum": {"driver": "570.124.06"}}, operator={"values": {"driver": {"version": "550.144.03"}}}),
        f"{_POOL}.minimum.driver",
        "570.124.06 is newer than the driver that the operator installs, 550.144.03",
        "550.144.03 or older",
        "gpu-pools:operator.values.driver.version",
    ),
    Case(
        "minimum-newer-than-the-chart-s-driver",
        aks({"minimum": {"driver": "900"}}),
        f"{_POOL}.minimum.driver",
        "900 is newer than the driver that the operator installs, 595.91.07",
    ),
    Case(
        "startup-taint-a-text",
        aks(verification={"startupTaint": "yes"}),
        "gpu-pools:verification.startupTaint",
        "neither true nor false",
    ),
    Case(
        "startup-taint-on-an-old-kubernetes",
        aks(cluster={"kubernetesVersion": "1.35.9"}, verification={"startupTaint": True}),
        "gpu-pools:verification.startupTaint",
        "needs Kubernetes 1.36, and gpu-pools:cluster.kubernetesVersion is 1.35.9",
        "1.36 or newer",
        'Set kubernetesVersion: "1.36"',
    ),
    Case(
        "surge-without-verification",
        aks({"replace": "surge"}),
        f"{_POOL}.replace",
        '"surge" needs the verification',
        "gpu-pools:verification",
        "Add `gpu-pools:verification: {}`",
    ),
    Case(
        "drain-timeout-without-replace",
        aks({"drainTimeoutSeconds": 60}, verification={}),
        f"{_POOL}.drainTimeoutSeconds",
        "without `replace` nobody drains the pool",
        "with replace",
        "or leave it out",
    ),
    Case(
        "surge-of-a-protected-pool",
        aks({"replace": "surge", "protect": True}, verification={}),
        f"{_POOL}.replace",
        "the engine would refuse to delete the old one",
        "protect or replace",
        "Leave `replace` or `protect` out",
    ),
    Case(
        "surge-of-a-pool-made-by-hand",
        aks(
            {"replace": "surge", "adopted": True},
            cluster={"name": GONE, "location": GONE, "systemPool": GONE, "existing": {"resourceGroup": "g", "name": "c"}},
            verification={},
        ),
        f"{_POOL}.replace",
        "the pool was made by hand",
        "pools that the stack makes",
        "Add a pool of the stack's beside it",
    ),
    Case(
        "surge-of-nodes-of-others",
        existing({"replace": "surge"}, verification={}),
        f"{_POOL}.replace",
        "unknown key `replace`",
        "rollout",
    ),
    Case(
        "rollout-without-verification",
        existing({"rollout": {}}),
        f"{_POOL}.rollout",
        "needs the verification",
        "gpu-pools:verification",
        "Add `gpu-pools:verification: {}`",
    ),
    Case(
        "rollout-by-a-share-of-nothing",
        magnum({"rollout": {"maxUnavailable": "0%"}}, verification={}),
        f"{_POOL}.rollout.maxUnavailable",
        '"0%" is neither a number of nodes nor a share of them',
        'a whole number from 1 to 100, or a share from "1%" to "100%"',
        "Write how many nodes",
    ),
    Case(
        "rollout-with-a-window-of-no-day",
        magnum({"rollout": {"windows": [{"day": "Someday", "startTime": "22:00", "durationHours": 6}]}}, verification={}),
        f"{_POOL}.rollout.windows[0].day",
        '"Someday"',
        "Saturday",
    ),
    Case(
        "rollout-with-a-window-that-is-too-long",
        magnum({"rollout": {"windows": [{"startTime": "22:00", "durationHours": 25}]}}, verification={}),
        f"{_POOL}.rollout.windows[0].durationHours",
        "25 is out of bounds",
        "at least 1 and at most 24",
    ),
    *(
        Case(
            f"startup-taint-with-{driver}",
            magnum(
                cluster={"driver": driver},
                verification={"startupTaint": True},
                operator={"install": True},
                nodeFeatureDiscovery={"install": True},
            ),
            "gpu-pools:verification.startupTaint",
            f"nodes of Magnum's driver {driver} cannot register with a taint",
            "heat",
            "Leave it out",
        )
        for driver in ("magnum-cluster-api", "capi-helm")
    ),
    Case(
        "startup-taint-declared-by-hand",
        aks(
            {"taints": ["sku=gpu:NoSchedule", "startup-taint.cluster-autoscaler.kubernetes.io/gpu-pools-unverified:NoSchedule"]},
            cluster={"kubernetesVersion": "1.36"},
            verification={"startupTaint": True},
        ),
        f"{_POOL}.taints[1]",
        "is the startup taint of the verification",
        "taints that stay",
    ),
    Case("observability-not-a-mapping", aks(observability="yes"), "gpu-pools:observability", '"yes" is not a mapping'),
    Case(
        "observability-unknown-key",
        aks(observability={"interval": 30}),
        "gpu-pools:observability.interval",
        "unknown key",
        "intervalSeconds",
        "Did you mean `intervalSeconds`?",
    ),
    Case(
        "observability-to-nobody-known",
        aks(observability={"to": "datadog"}),
        "gpu-pools:observability.to",
        '"datadog" is unknown',
        "prometheus | kube-prometheus-stack | azure | none",
    ),
    Case(
        "observability-azure-elsewhere",
        existing(observability={"to": "azure"}),
        "gpu-pools:observability.to",
        "azure, and the platform is existing",
        "kube-prometheus-stack or none on this platform",
        "Write `to: kube-prometheus-stack`",
    ),
    Case(
        "observability-azure-and-metrics-off",
        aks(observability={"to": "azure"}, cluster={"monitoring": {"metrics": False}}),
        "gpu-pools:cluster.monitoring.metrics",
        "false goes against gpu-pools:observability.to: azure",
        "true, or left out",
        "Leave it out",
    ),
    Case(
        "observability-azure-of-a-cluster-that-is-there",
        aks(
            observability={"to": "azure"},
            cluster={"name": GONE, "location": GONE, "systemPool": GONE, "existing": {"resourceGroup": "g", "name": "c"}},
        ),
        "gpu-pools:observability.azure",
        "names no workspace with its location",
        "workspace and location of where the cluster's metrics go",
        "--enable-azure-monitor-metrics",
    ),
    Case(
        "observability-azure-said-and-not-meant",
        aks(observability={"azure": {"grafanaAdmins": [_GROUP]}}),
        "gpu-pools:observability.azure",
        "says what to make of Azure Monitor, and `to` is not azure",
        "`to: azure` beside it",
        "Write `to: azure`, or leave this out.",
    ),
    Case(
        "observability-azure-a-group-by-its-name",
        aks(observability={"to": "azure", "azure": {"grafanaAdmins": ["platform"]}}),
        "gpu-pools:observability.azure.grafanaAdmins[0]",
        '"platform" is not an object id',
        "a GUID",
        "az ad group show",
    ),
    Case(
        "observability-azure-a-log-workspace",
        aks(observability={"to": "azure", "azure": {"workspace": _named("Microsoft.OperationalInsights/workspaces")}}),
        "gpu-pools:observability.azure.workspace",
        "is not the id of such a resource",
        "Microsoft.Monitor/accounts",
        "az monitor account list",
    ),
    Case(
        "observability-a-chart-that-is-not-installed",
        aks(observability={"prometheusStack": {"values": {}}}),
        "gpu-pools:observability.prometheusStack",
        "says what to install, and `to` is not kube-prometheus-stack",
        "`to: kube-prometheus-stack` beside it",
        "Write `to: kube-prometheus-stack`, or leave this out.",
    ),
    Case(
        "observability-a-password-in-clear",
        aks(observability=_installed(grafana={"adminPassword": "one"})),
        "gpu-pools:observability.prometheusStack.values.grafana.adminPassword",
        "`grafana.adminPassword` is not the user's to set",
        "any other value of the chart",
        "name a Secret in grafana.admin.existingSecret",
    ),
    Case(
        "observability-a-selector-that-misses-our-objects",
        aks(observability=_installed(prometheus={"prometheusSpec": {"ruleSelector": {"matchLabels": {"a": "b"}}}})),
        "gpu-pools:observability.prometheusStack.values.prometheus.prometheusSpec.ruleSelector",
        "is not the user's to set",
        "any other value of the chart",
        "its own objects are among those",
    ),
    Case(
        "observability-a-value-that-the-chart-lacks",
        aks(observability=_installed(prometheus={"prometheusSpec": {"retension": "30d"}})),
        "gpu-pools:observability.prometheusStack.values.prometheus.prometheusSpec.retension",
        "the chart kube-prometheus-stack 88.5.3 has no value",
        "retention",
        "Did you mean `retention`?",
    ),
    Case(
        "observability-a-chart-of-another-version",
        aks(observability={"to": "kube-prometheus-stack", "prometheusStack": {"version": "1.2.3"}}),
        "gpu-pools:observability.prometheusStack.version",
        '"1.2.3" is unknown',
        "88.5.3",
        "valuesFile",
    ),
    Case(
        "observability-interval-too-long",
        aks(observability={"intervalSeconds": 300}),
        "gpu-pools:observability.intervalSeconds",
        "300 is out of bounds",
        "at least 10 and at most 120",
    ),
    Case(
        "observability-label-no-label",
        aks(observability={"labels": {"release": "not a label"}}),
        "gpu-pools:observability.labels.release",
        '"not a label" is not a label value',
    ),
    Case(
        "observability-with-another-s-operator",
        existing(observability={}, operator={"install": False}),
        "gpu-pools:observability",
        "needs an operator of this stack's own",
        "beside an operator that the stack installs",
        "Leave the section out",
    ),
    Case(
        "observability-and-the-operator-s-own-monitor",
        aks(observability={}, operator={"values": {"dcgmExporter": {"serviceMonitor": {"enabled": True}}}}),
        "gpu-pools:operator.values.dcgmExporter.serviceMonitor.enabled",
        "true goes against gpu-pools:observability",
        "what the section makes of it",
        "Take it out",
    ),
    Case(
        "observability-and-a-list-of-fields-of-one-s-own",
        aks(observability={}, operator={"values": {"dcgmExporter": {"config": {"name": "mine"}}}}),
        "gpu-pools:operator.values.dcgmExporter.config",
        "the rules need the fields of the stack's own list",
        "what the section makes of it",
        "Take it out",
    ),
    Case(
        "observability-and-an-option-of-the-exporter",
        aks(observability={}, operator={"values": {"dcgmExporter": {"args": ["--web-config-file=x", "-collectors", "/f.csv"]}}}),
        "gpu-pools:operator.values.dcgmExporter.args[1]",
        "it is decided by nothing: the rules need these fields",
        "what the section makes of it",
        "Take it out",
    ),
    Case("verification-not-a-mapping", aks(verification=True), "gpu-pools:verification", "true is not a mapping"),
    Case(
        "verification-enabled-a-text",
        aks(verification={"enabled": "yes"}),
        "gpu-pools:verification.enabled",
        "neither true nor false",
    ),
    Case(
        "verification-deadline-too-short",
        aks(verification={"deadlineSeconds": 9}),
        "gpu-pools:verification.deadlineSeconds",
        "9 is out of bounds",
        "at least 10 and at most 86400",
    ),
    Case(
        "verification-interval-a-text",
        aks(verification={"intervalSeconds": "5m"}),
        "gpu-pools:verification.intervalSeconds",
        "is not a whole number",
    ),
    Case(
        "verification-image-without-digest",
        aks(verification={"image": "python:3.12-slim"}),
        "gpu-pools:verification.image",
        "does not fit",
        "an image by digest",
    ),
    Case(
        "driver-owners-mixed",
        aks(pools=_two_pools({"driver": "operator"}, {"driver": "preinstalled"})),
        "gpu-pools:pools",
        "different driver owners (one: operator, two: preinstalled)",
        "the same owner for all",
        "gpu-pools:operator.driver",
    ),
    Case(
        "partitioned-by-aks-with-operator-driver",
        aks({"partitionedBy": "aks"}, sharing=_mig({"1g.10gb": 7})),
        f"{_POOL}.partitionedBy",
        "the operator is to install the driver",
        "`driver: preinstalled`",
        "preinstalled",
    ),
    Case(
        "partitioned-by-aks-without-mig",
        aks({"partitionedBy": "aks", "driver": "preinstalled"}),
        f"{_POOL}.partitionedBy",
        '"whole" is not MIG',
        "operator",
        "Remove it.",
    ),
    Case(
        "partitioned-by-aks-mixed-layout",
        aks({"partitionedBy": "aks", "driver": "preinstalled"}, sharing=_mig(_MIXED)),
        f"{_POOL}.partitionedBy",
        'AKS cannot make the layout of "cut"',
        "{1g.10gb: 7} on 80 GB",
        "`partitionedBy: operator`",
    ),
    Case(
        "partitioned-by-aks-half-a-gpu",
        aks({"partitionedBy": "aks", "driver": "preinstalled"}, sharing=_mig({"1g.10gb": 6})),
        f"{_POOL}.partitionedBy",
        "AKS cannot make the layout",
        "the same full set",
    ),
    Case(
        "partitioned-by-two-owners",
        aks(
            pools=_two_pools({"partitionedBy": "aks", "sharing": "cut"}, {"sharing": "cut"}),
            sharing=_mig({"1g.10gb": 7}),
            operator={"driver": "preinstalled"},
        ),
        "gpu-pools:pools",
        "different owners (one: aks, two: operator)",
        "`partitionedBy: operator` for all MIG pools",
        "mig-manager must be off",
    ),
    Case("partitioned-by-somebody", aks({"partitionedBy": "me"}), f"{_POOL}.partitionedBy", '"me" is unknown', "operator | aks"),
)


CASES: tuple[Case, ...] = (
    *_FILE_CASES,
    *_SECTION_CASES,
    *_SHARING_CASES,
    *_MIG_CASES,
    *_POOL_CASES,
    *_LABEL_CASES,
    *_OPERATOR_CASES,
    *_ADOPTION_CASES,
    *OPTION_CASES,
    *MAGNUM_OPTION_CASES,
    *GPU_MODEL_CASES,
)

#: A stack that is wrong in ten ways at once, and where.
TEN_MISTAKES = """\
config:
  gpu-pools:cluster: {platform: aks, lokation: westeurope}
  gpu-pools:sharing:
    notebooks: {timeSlicing: {replicas: 1}}
    inference: {mps: {replicas: 49}}
    training: {mig: {layout: {3g.40gb: 3}}}
  gpu-pools:pools:
    - {name: notebooks-pool, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: notebooks}
    - {name: inf, vmSize: Standard_NC24ads_A100_v9, count: 1, sharing: inference}
    - {name: tr, vmSize: Standard_NC24ads_A100_v4, nodes: {min: 4, max: 1}, sharing: training, taints: [gpu]}
    - {name: tr, vmSize: Standard_NC4as_T4_v3, count: 1, sharing: trainng}
"""
TEN_PATHS = (
    "gpu-pools:cluster.lokation",
    "gpu-pools:sharing.notebooks.timeSlicing.replicas",
    "gpu-pools:sharing.inference.mps.replicas",
    "gpu-pools:sharing.training.mig.layout",
    "gpu-pools:pools[0].name",
    "gpu-pools:pools[1].vmSize",
    "gpu-pools:pools[2].nodes",
    "gpu-pools:pools[2].taints[0]",
    "gpu-pools:pools[3].name",
    "gpu-pools:pools[3].sharing",
)
