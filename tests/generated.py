"""Writes what follows from the tables of fields: ``python -m tests.generated``; tests/unit/test_fields.py holds it to
them, tests/components/test_fields.py the schema.

The types of the components' arguments (components/arguments/stack.py) are written out, since mypy and Pulumi's analyzer read the
text of a program, not what it computes. Of docs/reference/stack.md the tables between marks are written, the prose around them
is by hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks import properties as aks_properties
from gpu_pools.platforms.aks.access import ApiServer, Identity, KubeletIdentity
from gpu_pools.platforms.aks.cluster import AksSettings, SystemPool
from gpu_pools.platforms.aks.entra import EntraSettings
from gpu_pools.platforms.aks.existing import ExistingAks
from gpu_pools.platforms.aks.network import LoadBalancer, Network
from gpu_pools.platforms.aks.options import AksClusterOptions, KeyVaultSecrets, Monitoring
from gpu_pools.platforms.aks.placement import AksPlacement, Spot
from gpu_pools.platforms.aks.pool_options import AksPoolOptions, KubeletConfig, LinuxOsConfig, UpgradeSettings
from gpu_pools.platforms.aks.upkeep import Autoscaler, Maintenance, Upgrades, Window
from gpu_pools.platforms.existing.cluster import ExistingSettings
from gpu_pools.platforms.existing.placement import ExistingPlacement
from gpu_pools.platforms.known import PLATFORMS
from gpu_pools.platforms.magnum.cluster import BootVolume, MagnumOptions, MagnumSettings, MagnumTemplate
from gpu_pools.platforms.magnum.existing import BESIDE, ExistingMagnum
from gpu_pools.platforms.magnum.placement import MagnumPlacement
from gpu_pools.reading.fields import Kind, Row, flag, on, rows, snake
from gpu_pools.sharing.mps import Mps
from gpu_pools.sharing.needs import Needs
from gpu_pools.sharing.time_slicing import TimeSlicing
from gpu_pools.stack.acknowledged import Acknowledgement
from gpu_pools.stack.azure_monitor import AzureMonitorSettings
from gpu_pools.stack.charts import ChartSettings, ChartSource, NfdSettings, OperatorSettings
from gpu_pools.stack.driver_upgrade import DriverUpgrade
from gpu_pools.stack.gpu_models import DeclaredMig, DeclaredModel, DeclaredProfile
from gpu_pools.stack.node_hardware import DeclaredHardware, Flavor
from gpu_pools.stack.observability import ObservabilitySettings
from gpu_pools.stack.pools import Minimum, Pool
from gpu_pools.stack.registry import RegistrySettings
from gpu_pools.stack.rollout import Rollout, RolloutWindow
from gpu_pools.stack.verification import VerificationSettings
from tests.azure_native_types import types as azure_types
from tests.conformance import suites as conformance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


ROOT: Final = Path(__file__).parents[1]
ARGS: Final = ROOT / "components" / "arguments" / "stack.py"
MODE_ARGS: Final = ROOT / "components" / "arguments" / "modes.py"
SCHEMA: Final = ROOT / "components" / "schema.json"
PAGES: Final = ROOT / "docs" / "reference" / "components"
PROPERTIES: Final = ROOT / "docs" / "reference" / "aks-properties.md"
AZURE: Final = ROOT / "gpu_pools" / "platforms" / "aks" / "azure_native.json"
REFERENCE: Final = ROOT / "docs" / "reference" / "stack.md"

_HEAD: Final = '''"""The types of the arguments of {of}.

Written by `python -m tests.generated` from the tables of fields (gpu_pools/reading/fields.py): edit those.
"""

from typing import {names}
'''
_IMPORTS: Final = """
import pulumi

from gpu_pools.components.arguments.sharing import Declared, Sharing
"""
#: Where a program of Python may also hand over what is no type of a schema: a component, a mapping in the stack file's words.
_TAIL: Final = """

if TYPE_CHECKING:
    AksPoolLike = AksPoolArgs | PoolArgs | dict[str, Any] | Declared
    MagnumPoolLike = MagnumPoolArgs | PoolArgs | dict[str, Any] | Declared
    ExistingPoolLike = ExistingPoolArgs | PoolArgs | dict[str, Any] | Declared
    PoolLike = AksPoolArgs | MagnumPoolArgs | ExistingPoolArgs | PoolArgs | dict[str, Any] | Declared
    NamedPool = NamedPoolArgs | dict[str, Any]
    Cluster = ClusterArgs | dict[str, Any]
else:
    # One type in the schema: Go, C# and Java have no other way to hand one declaration to all components.
    AksPoolLike = MagnumPoolLike = ExistingPoolLike = PoolLike = PoolArgs
    NamedPool, Cluster = NamedPoolArgs, ClusterArgs
"""


@dataclass(frozen=True)
class Args:
    """A type of arguments: its description, the classes whose rows it has, for which platform, what it lacks, and more.

    Without a description it has that of its first class.
    """

    name: str
    says: str
    of: tuple[type, ...]
    platform: str = "all"
    lacks: tuple[str, ...] = ()
    more: tuple[Row, ...] = ()


_STACK: Final = "In the section `observability`: the chart kube-prometheus-stack."
#: What stands beside `existing` of Magnum.
_BESIDE_MAGNUM: Final = tuple(one for one in rows(MagnumSettings) if one.key in BESIDE and one.key != "existing")
#: What a pool of AKS has beside `AksPlacement`.
POOL_CLASSES: Final = (AksPoolOptions,)
#: Type of the plugin -> what it is, and the classes whose rows set its properties.
RESOURCES: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "AgentPool": ("Pools", (Pool, AksPlacement, *POOL_CLASSES)),
    "ManagedCluster": ("Clusters", (AksSettings, AksClusterOptions)),
}
_RANGE: Final = '''

class NodeRangeArgs(TypedDict):
    """Bounds of an autoscaled pool."""

    min: int
    """Fewest nodes."""
    max: int
    """Most nodes."""
'''
_POOLS: Final = (Pool, AksPlacement, *POOL_CLASSES, MagnumPlacement, ExistingPlacement, DeclaredHardware)
TYPES: Final = (
    Args("SystemPoolArgs", "The pool for the cluster's own pods; `count` or `nodes`.", (SystemPool,), "aks"),
    Args(
        "EntraArgs",
        "Users log in with Entra ID, by kubelogin; certificates of administrators cannot be had.",
        (EntraSettings,),
        "aks",
    ),
    Args("LoadBalancerArgs", "How nodes reach outside through the cluster's load balancer.", (LoadBalancer,), "aks"),
    Args("NetworkArgs", "Where nodes and pods lie, and how they talk.", (Network,), "aks"),
    Args("ApiServerArgs", "Who can reach the API server.", (ApiServer,), "aks"),
    Args("KubeletIdentityArgs", "The identity as which nodes pull images.", (KubeletIdentity,), "aks"),
    Args("IdentityArgs", "As whom the cluster acts in Azure.", (Identity,), "aks"),
    Args("KeyVaultSecretsArgs", "Secrets of Azure Key Vault as volumes.", (KeyVaultSecrets,), "aks"),
    Args("UpgradesArgs", "Upgrades that Azure makes by itself.", (Upgrades,), "aks"),
    Args("WindowArgs", "When Azure may do it: weekly, or daily where no day is named.", (Window,), "aks"),
    Args("MaintenanceArgs", "When Azure may upgrade by itself.", (Maintenance,), "aks"),
    Args("AutoscalerArgs", "The cluster autoscaler, the same for all pools.", (Autoscaler,), "aks"),
    Args("MonitoringArgs", "Logs and metrics in Azure Monitor.", (Monitoring,), "aks"),
    Args("AksClusterArgs", "An AKS cluster.", (AksSettings, AksClusterOptions), "aks", lacks=("existing",)),
    Args("ExistingAksClusterArgs", "An AKS cluster that is there.", (ExistingAks,), "aks"),
    Args("MagnumTemplateArgs", "A cluster template to make.", (MagnumTemplate,), "magnum"),
    Args("BootVolumeArgs", "A volume as the machines' disk.", (BootVolume,), "magnum"),
    Args(
        "MagnumClusterArgs",
        "A Magnum cluster; `template` or `template_id`.",
        (MagnumSettings, MagnumOptions),
        "magnum",
        lacks=("existing",),
    ),
    Args(
        "ExistingMagnumClusterArgs",
        "A Magnum cluster that is there, by `name` or `uuid`.",
        (ExistingMagnum,),
        "magnum",
        more=_BESIDE_MAGNUM,
    ),
    Args("ExistingClusterArgs", "How to reach the cluster.", (ExistingSettings,), "existing"),
    Args(
        "RolloutWindowArgs", "When changes of nodes may begin: weekly, or daily where no day is named.", (RolloutWindow,), "all"
    ),
    Args("DriverUpgradeArgs", "How the operator replaces drivers on living nodes.", (DriverUpgrade,)),
    Args("RolloutArgs", "How the pool's living nodes change in place.", (Rollout,)),
    Args("MinimumArgs", "What a node's driver must be at least; the verification holds each node against it.", (Minimum,)),
    Args("SpotArgs", "Spot VMs.", (Spot,), "aks"),
    Args("UpgradeSettingsArgs", "How nodes are exchanged in an upgrade.", (UpgradeSettings,), "aks"),
    Args("KubeletConfigArgs", "Settings of the kubelets.", (KubeletConfig,), "aks"),
    Args("LinuxOsConfigArgs", "Settings of the nodes' kernels.", (LinuxOsConfig,), "aks"),
    Args("AksPoolArgs", "A GPU pool; the same fields as a pool of a stack file.", (Pool, AksPlacement, *POOL_CLASSES), "aks"),
    Args(
        "FlavorArgs",
        "What a Nova flavor has; OpenStack has no field that names the GPU model.",
        (DeclaredHardware,),
        "magnum",
    ),
    Args(
        "MagnumPoolArgs",
        "A GPU node group; the same fields as a pool of a stack file.",
        (Pool, MagnumPlacement),
        "magnum",
    ),
    Args(
        "ExistingPoolArgs",
        "A pool of an existing cluster; the same fields as in a stack file.",
        (Pool, ExistingPlacement, DeclaredHardware),
        "existing",
        # Labels alone make no node and prove none.
        lacks=("count", "nodes", "minimum"),
    ),
    Args(
        "ExistingArgs",
        "A cluster of a cloud that is there: by `resource_group` and `name` on AKS, by `name` or `uuid` on Magnum.",
        (ExistingAks, ExistingMagnum),
        "any",
    ),
    Args(
        "ClusterArgs",
        "A stack file's section `cluster`: the platform, and what making or reaching the cluster needs there.",
        (AksSettings, AksClusterOptions, MagnumSettings, MagnumOptions, ExistingSettings),
        "any",
        more=(
            Row("platform", "aks, magnum or existing.", Kind(flag().read, "str"), needed=True),
            Row("existing", "A cluster that is there, instead of one that is made.", Kind(flag().read, "ExistingArgs")),
        ),
    ),
    Args("PoolArgs", "A GPU pool of any platform.", _POOLS, "any"),
    Args(
        "NamedPoolArgs",
        "A stack file's entry of `pools`: a GPU pool of any platform.",
        _POOLS,
        "any",
        lacks=("sharing",),
        more=(Row("sharing", "The name of a declaration.", Kind(flag().read, "str"), needed=True),),
    ),
    Args("ChartSourceArgs", "", (ChartSource,)),
    Args("OperatorSectionArgs", "", (OperatorSettings, ChartSettings), "gpu-operator"),
    Args("NodeFeatureDiscoverySectionArgs", "", (NfdSettings, ChartSettings), "node-feature-discovery"),
    Args("PrometheusStackArgs", _STACK, (ChartSettings,), "kube-prometheus-stack"),
    Args("AzureMonitorArgs", "", (AzureMonitorSettings,)),
    Args("ObservabilitySectionArgs", "", (ObservabilitySettings,)),
    Args("VerificationSectionArgs", "", (VerificationSettings,)),
    Args("RegistrySectionArgs", "", (RegistrySettings,)),
    Args("AcknowledgementArgs", "", (Acknowledgement,)),
)


MODE_TYPES: Final = (
    Args("NeedsArgs", "What each pod needs; the plan holds it against the GPUs of every pool.", (Needs,)),
    Args("SlicesArgs", "How pods take turns.", (TimeSlicing,)),
    Args("SideBySideArgs", "How pods run side by side.", (Mps,)),
)


def args_text() -> str:
    """components/arguments/stack.py."""
    head = _HEAD.format(of="clusters, pools and other sections", names="TYPE_CHECKING, Any, NotRequired, TypedDict")
    return head + _IMPORTS + _RANGE + "".join(map(_type, TYPES)) + _TAIL


def mode_args_text() -> str:
    """components/arguments/modes.py."""
    return _HEAD.format(of="sharing modes", names="NotRequired, TypedDict") + "".join(map(_type, MODE_TYPES))


def _type(args: Args) -> str:
    written = [row for settings in args.of for row in rows(settings) if row.key not in args.lacks]
    found = _of_any(written, args) if args.platform == "any" else [row for row in written if on(row.says, args.platform)]
    found += args.more
    required = [row for row in found if row.needed and not row.either]
    lines = [_key(row, args.platform) for row in (*required, *(row for row in found if row not in required))]
    says = args.says or str(args.of[0].__doc__).splitlines()[0]
    return f'\n\nclass {args.name}(TypedDict):\n    """{says}"""\n\n{"".join(lines)}'


def _of_any(written: list[Row], args: Args) -> list[Row]:
    """Rows of several platforms: each key once, and needed only where each platform needs it."""
    own = {row.key for row in args.more}
    found = {}
    for one in written:
        if one.key in own or one.key in found:
            continue
        # What only some of the classes have cannot be needed by all.
        found[one.key] = replace(one, says=_said(one), needed=one.needed and args.of[0] is Pool and one in rows(Pool))
    return [*found.values()]


def _said(one: Row) -> str:
    return one.says if isinstance(one.says, str) else next(iter(one.says.values()))


def _key(row: Row, platform: str) -> str:
    kind = row.kind.type if isinstance(row.kind.type, str) else _name(row.kind.type)
    annotation = kind if row.needed and not row.either else f"NotRequired[{kind}]"
    return f'    {snake(row.key)}: {annotation}\n    """{on(row.says, platform)}"""\n'


def _name(settings: type) -> str:
    (name,) = [args.name for args in TYPES if args.of == (settings,)]
    return name


def reference_text() -> str:
    """docs/reference/stack.md, with its tables as the rows are."""
    text = REFERENCE.read_text(encoding="utf-8")
    tables = {
        "cluster": _cluster(),
        "pools": _pools(),
        "sharing": _table((TimeSlicing, "timeSlicing."), (Mps, "mps."), (Needs, "needs.")),
        "gpuModels": _table((DeclaredModel, ""), (DeclaredMig, "mig."), (DeclaredProfile, "mig.profiles.<name>.")),
        "flavors": _table((DeclaredHardware, ""), (Flavor, ""), platform="magnum"),
        "acknowledged": _table((Acknowledgement, "")),
        "charts": _table((ChartSettings, "")),
        "operator": _table((OperatorSettings, "")),
        "nodeFeatureDiscovery": _table((NfdSettings, "")),
        "registry": _table((RegistrySettings, "")),
        "observability": _table((ObservabilitySettings, "")),
        "verification": _table((VerificationSettings, "")),
    }
    for mark, lines in tables.items():
        before, start, rest = text.partition(f"<!-- {mark}: written by python -m tests.generated -->\n")
        _, end, after = rest.partition("<!-- end -->\n")
        text = before + start + "".join(f"{line}\n" for line in lines) + end + after
    return text


_COLUMNS: Final = ("| key | platform | meaning | sets | a change |", "|---|---|---|---|---|")


def _cluster() -> Iterator[str]:
    yield from _COLUMNS
    yield "| `platform` | all | *required*: `aks`, `magnum` or `existing` | | |"
    for platform, settings in ((name, one.cluster) for name, one in PLATFORMS.items()):
        yield from _lines(settings, (platform,))
        if settings is AksSettings:
            yield from _lines(AksClusterOptions, (platform,))
        if settings is MagnumSettings:
            yield from _lines(MagnumOptions, (platform,))


def _pools() -> Iterator[str]:
    yield from _COLUMNS
    yield from _lines(Pool, tuple(PLATFORMS))
    for platform, placed in (
        ("aks", (AksPlacement, *POOL_CLASSES)),
        ("magnum", (MagnumPlacement,)),
        ("existing", (ExistingPlacement, DeclaredHardware)),
    ):
        for settings in placed:
            yield from _lines(settings, (platform,))


def _table(*of: tuple[type, str], platform: str = "all") -> Iterator[str]:
    """The keys of a section that sets no property of a cloud: of each class, and what stands before them."""
    yield from ("| key | meaning |", "|---|---|")
    for settings, above in of:
        yield from _keys(settings, platform, above)


def _keys(settings: type, platform: str, above: str) -> Iterator[str]:
    for row in rows(settings):
        yield f"| `{above}{row.key}` | {_meaning(row, platform)} |"
        if not isinstance(row.kind.type, str):
            yield from _keys(row.kind.type, platform, f"{above}{row.key}.")


def _lines(settings: type, platforms: tuple[str, ...], above: str = "") -> Iterator[str]:
    """A line for each key, and for those of the mappings in it."""
    for row in rows(settings):
        on_these = [platform for platform in platforms if on(row.says, platform)]
        if not on_these:
            continue
        cells = [
            f"`{above}{row.key}`",
            "all" if len(on_these) == len(PLATFORMS) else ", ".join(on_these),
            _meaning(row, on_these[0]),
            _told(row.sets, on_these, "`"),
            _told(row.change, on_these),
        ]
        yield "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
        if not isinstance(row.kind.type, str):
            yield from _lines(row.kind.type, tuple(on_these), f"{above}{row.key}.")


def _meaning(row: Row, platform: str) -> str:
    needed = f"*required*, or `{row.either}`: " if row.either else "*required*: "
    said = row.doc or on(row.says, platform)
    default = json.dumps(row.default).strip('"') if isinstance(row.default, str | int | float) and row.default else ""
    return (needed if row.needed else "") + said + (f" Default: `{default}`." if default and "default" not in said else "")


def _told(value: str | Mapping[str, str], platforms: list[str], quote: str = "") -> str:
    """One word where it is the same everywhere, else one for each platform."""
    told = {
        platform: ", ".join(f"{quote}{one}{quote}" for one in on(value, platform).split(", ") if one) for platform in platforms
    }
    if len(set(told.values())) == 1:
        return next(iter(told.values()))
    return ", ".join(f"{platform}: {words}" for platform, words in told.items() if words)


_PROPERTIES_HEAD: Final = """# Properties of AKS: what a change does

Written by `python -m tests.generated` from [the data](../../gpu_pools/platforms/aks/properties.yaml).

| word | what happens |
|---|---|
| updates | in place; no node is exchanged |
| rolling | in place, but nodes are exchanged or rebuilt |
| replaces | deleted and made anew; by the plugin itself, or because the stack tells the engine so |
| refused | neither; the preview says so, and the remedy |

The key is that of [the stack file](stack.md); what has none goes under `properties`. All of what lies in a property does the
same, unless it has a line of its own.
"""


def properties_text() -> str:
    """docs/reference/aks-properties.md."""
    lines = [_PROPERTIES_HEAD]
    for type_, (what, settings) in RESOURCES.items():
        keys = _keys_by_path(settings)
        lines += [f"## {what}\n", "| property | key | a change | besides | read in |", "|---|---|---|---|---|"]
        for path, known in aks_properties.properties(type_).items():
            key = ", ".join(f"`{one}`" for one in keys.get(path, ()))
            besides = "; ".join(filter(None, [known.note, "never off again" if known.keeps else ""]))
            pages = [known.page if one == "docs" else one for one in known.sources]
            cells = [f"`{path}`", key, known.change, besides, ", ".join(pages)]
            lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
        lines.append("")
    lines += ["## Sources\n", *(f"- {key}: {where}" for key, where in aks_properties.sources().items())]
    return "\n".join(lines) + "\n"


def _keys_by_path(settings: tuple[type, ...], above: str = "") -> dict[str, list[str]]:
    """Property -> keys that set it or something in it; those of a mapping by the mapping's own, where it is one property."""
    found: dict[str, list[str]] = {}
    for row in (row for one in settings for row in rows(one)):
        if not on(row.says, "aks"):
            continue
        for path in filter(None, on(row.sets, "aks").split(", ")):
            steps = path.split(".")
            for end in range(1, len(steps) + 1):
                found.setdefault(".".join(steps[:end]), []).append(f"{above}{row.key}")
        if not isinstance(row.kind.type, str):
            for path, keys in _keys_by_path((row.kind.type,), f"{above}{row.key}.").items():
                known = found.setdefault(path, [])
                # All keys of a mapping that is one property are said by its name.
                known += [f"{above}{row.key}"] if len(keys) > 1 and f"{above}{row.key}" not in known else keys[: len(keys) == 1]
    return {path: list(dict.fromkeys(keys)) for path, keys in found.items()}


def schema_text() -> str:
    """components/schema.json, of the types as they are written."""
    from gpu_pools.components.provider import GpuPoolsProvider  # noqa: PLC0415 - once they are

    return json.dumps(json.loads(GpuPoolsProvider().schema or ""), indent=1) + "\n"


def pages() -> Mapping[Path, str]:
    """docs/reference/components: the page of each component with its tables, and that of the types, by the schema."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    found = {PAGES / "types.md": _types_page(schema)}
    for token, resource in schema["resources"].items():
        name = token.rpartition(":")[2]
        path = PAGES / f"{name}.md"
        before, start, _ = path.read_text(encoding="utf-8").partition(f"<!-- {name}: written by python -m tests.generated -->\n")
        needed = {*resource.get("requiredInputs", ())}
        lines = ["## Inputs", "", *_schema_table(resource.get("inputProperties", {}), needed)]
        lines += ["", "## Outputs", "", *_schema_table(resource.get("properties", {}), set())]
        found[path] = before + start + "\n".join(lines) + "\n<!-- end -->\n"
    return found


def _types_page(schema: Mapping[str, Any]) -> str:
    lines = ["# Types", "", "Written by `python -m tests.generated` from [the schema](../../../components/schema.json).", ""]
    for token, kind in sorted(schema["types"].items()):
        table = _schema_table(kind.get("properties", {}), {*kind.get("required", ())})
        lines += [f"## {token.rpartition(':')[2]}", "", kind.get("description", "").strip(), "", *table, ""]
    return "\n".join(lines).rstrip() + "\n"


def _schema_table(properties: Mapping[str, Any], needed: set[str]) -> list[str]:
    if not properties:
        return ["None."]
    lines = ["| name | type | what it is |", "|---|---|---|"]
    for key, one in properties.items():
        said = ("*required*: " if key in needed else "") + one.get("description", "").strip()
        lines.append(f"| `{key}` | {_schema_type(one)} | {said} |")
    return lines


def _schema_type(one: Mapping[str, Any]) -> str:
    if "$ref" in one:
        name = one["$ref"].rpartition(":")[2]
        return "anything" if one["$ref"].endswith("/Any") else f"[{name}](types.md#{name.lower()})"
    if one["type"] == "array":
        return f"list of {_schema_type(one['items'])}"
    if one["type"] == "object":
        return f"mapping of {_schema_type(one['additionalProperties'])}"
    return str(one["type"])


def azure_text() -> str:
    """gpu_pools/platforms/aks/azure_native.json, a line for each type."""
    found = azure_types()
    lines = [f'{{"version": {json.dumps(found["version"])}']
    for key in ("types", "enums"):
        inner = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in found[key].items())
        lines.append(f'"{key}": {{\n{inner}\n}}')
    return ",\n".join(lines) + "}\n"


if __name__ == "__main__":
    AZURE.write_text(azure_text(), encoding="utf-8")
    ARGS.write_text(args_text(), encoding="utf-8")
    MODE_ARGS.write_text(mode_args_text(), encoding="utf-8")
    REFERENCE.write_text(reference_text(), encoding="utf-8")
    PROPERTIES.write_text(properties_text(), encoding="utf-8")
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    conformance.PAGE.write_text(conformance.page(), encoding="utf-8")
