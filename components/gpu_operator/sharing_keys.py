"""The keys of the sharing configs, each a resource of its own, so that a key goes only when nobody needs it any more.

Pulumi deletes what is no longer declared at the very end of an update, and only of one that went well: after the labels have
moved, and after the verification has proven the nodes. So each config of the device plugin is a patch of a ConfigMap: the key
of before stays while nodes may name it, also where the update fails or is interrupted, and whoever goes back finds it there.

The mig-parted file is one text with all its named configs. So these are patches of a ConfigMap beside it, which is read back:
the file has what is declared and what is still there. A config that has gone leaves the file with the next update.

The ConfigMaps themselves hold nothing of this; what they were given by versions of before stays in them until they go.
"""

from collections.abc import Mapping, Sequence

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap, ConfigMapPatch

from gpu_pools.allocation.device_plugin import DEVICE_PLUGIN_CONFIG_MAP
from gpu_pools.allocation.mig_parted import MIG_PARTED_CONFIG_MAP, MIG_PARTED_ENTRIES_CONFIG_MAP, mig_parted_file
from gpu_pools.components.engine.options import child_options
from gpu_pools.components.kubernetes.recorded_objects import Stored
from gpu_pools.plan.planned import Plan
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE


def config_keys(
    parent: pulumi.Resource,
    name: str,
    plan: Plan,
    opts: pulumi.ResourceOptions | None,
    before: Sequence[pulumi.Resource],
    mps: pulumi.ResourceHookBinding | None = None,
) -> list[Stored]:
    """The two ConfigMaps that the operator's operands read, with all that is in them.

    Args:
        parent: the component.
        name: of the component.
        plan: what is declared.
        opts: options of the component.
        before: what must be there.
        mps: hooks for the keys of MPS declarations.
    """
    plugin = _base(parent, f"{name}-device-plugin", DEVICE_PLUGIN_CONFIG_MAP, opts, before)
    hooks = {pool.config_key: mps for pool in plan.pools if pool.sharing.needs_mps_daemon}
    configs = _patches(parent, f"{name}-config", plugin, DEVICE_PLUGIN_CONFIG_MAP, plan.device_plugin_configs, opts, hooks)
    return [Stored(plugin), *configs, *_mig_parted(parent, name, plan, opts, before)]


def _mig_parted(
    parent: pulumi.Resource, name: str, plan: Plan, opts: pulumi.ResourceOptions | None, before: Sequence[pulumi.Resource]
) -> list[Stored]:
    kept = _base(parent, f"{name}-mig-layouts", MIG_PARTED_ENTRIES_CONFIG_MAP, opts, before)
    declared = plan.mig_parted_entries
    layouts = _patches(parent, f"{name}-layout", kept, MIG_PARTED_ENTRIES_CONFIG_MAP, declared, opts)
    live = ConfigMap.get(
        f"{name}-mig-layouts-live", kept.id, child_options(parent, opts, depends_on=[kept, *(one.resource for one in layouts)])
    )
    text = _known(live.data).apply(lambda there: mig_parted_file({**there, **declared}))
    file = ConfigMap(
        f"{name}-mig-parted",
        metadata={"name": MIG_PARTED_CONFIG_MAP, "namespace": OPERATOR_NAMESPACE},
        data={"config.yaml": text},
        opts=child_options(parent, opts, depends_on=[*before, live]),
    )
    return [Stored(kept), *layouts, Stored(file)]


def _known(data: pulumi.Output[Mapping[str, str]]) -> pulumi.Output[dict[str, str]]:
    """The data, nothing where it is not known: so the preview of a cluster that is to be made shows the file, too."""

    async def known() -> dict[str, str]:
        return dict(await data.future() or {}) if await data.is_known() else {}

    return pulumi.Output.from_input(known())


def _base(
    parent: pulumi.Resource, name: str, config_map: str, opts: pulumi.ResourceOptions | None, before: Sequence[pulumi.Resource]
) -> ConfigMap:
    return ConfigMap(
        name,
        metadata={"name": config_map, "namespace": OPERATOR_NAMESPACE},
        # Versions of before had the keys in here: they must not be ripped out under nodes that name them.
        opts=child_options(parent, opts, depends_on=before, ignore_changes=["data"]),
    )


def _patches(
    parent: pulumi.Resource,
    name: str,
    base: ConfigMap,
    config_map: str,
    data: Mapping[str, str],
    opts: pulumi.ResourceOptions | None,
    hooks: Mapping[str, pulumi.ResourceHookBinding | None] | None = None,
) -> list[Stored]:
    return [
        Stored(
            ConfigMapPatch(
                f"{name}-{key}",
                metadata={"name": config_map, "namespace": OPERATOR_NAMESPACE},
                data={key: text},
                opts=child_options(parent, opts, depends_on=[base], hooks=(hooks or {}).get(key)),
            ),
            (key,),
        )
        for key, text in data.items()
    ]
