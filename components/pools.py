"""Declarations of GPU pools as typed, reusable resources: AksPool, MagnumPool, ExistingPool.

A pool is known to many: NFD and the operator must tolerate its taints, the operator needs its sharing config, and its nodes the
label that names that config. So it is declared once, here, and handed to all of them; like a sharing declaration it makes nothing
in a cloud. It is not the component that makes the nodes, since those must come after the operator: a label never names a config
that is not there yet. What pools do to each other (the MIG strategy, who installs the driver) only all of them together decide.
"""

from collections.abc import Mapping
from typing import Any, NotRequired

import pulumi

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.stack import AksPoolArgs, ExistingPoolArgs, FlavorArgs, MagnumPoolArgs, PoolArgs
from gpu_pools.components.arguments.to_stack import plan_alone, pool_keys, stack_keys
from gpu_pools.components.engine.outputs import put_back

__all__ = [
    "AksPool",
    "AksPoolDeclarationArgs",
    "ExistingPool",
    "ExistingPoolDeclarationArgs",
    "MagnumPool",
    "MagnumPoolDeclarationArgs",
    "PoolDeclaration",
]


class PoolDeclaration(pulumi.ComponentResource):
    """What the platforms' pools have in common: a checked declaration."""

    pool_name: pulumi.Output[str]
    """The pool's name."""

    def _declare(
        self, name: str, args: Mapping[str, Any], opts: pulumi.ResourceOptions | None, platform: Mapping[str, Any]
    ) -> None:
        """Check and hold it.

        Raises:
            InvalidStackError: with everything that is wrong with it by itself.
        """
        kind = type(self).__name__
        pool = dict(args)
        flavor, models = pool.pop("hardware", None), pool.pop("gpu_models", None)
        #: The cluster section that it is planned with.
        self.platform = platform
        #: The declaration in the stack file's words, as a plain mapping.
        self.written: dict[str, Any] = pool_keys(pool, f"{kind}({name})")
        #: What its Magnum flavor has.
        self.hardware: dict[str, Any] | None = None if flavor is None else stack_keys(flavor)
        #: GPU models of its own.
        self.models: dict[str, Any] | None = models
        plan_alone(f"{kind}({name})", platform, self.written, None, flavor, models=models)
        super().__init__(f"gpu-pools:index:{kind}", name, None, opts)
        self.pool_name = pulumi.Output.from_input(str(self.written["name"]))
        self.declared = pulumi.Output.from_input(put_back(self.written))
        self.register_outputs({"pool_name": self.pool_name, "declared": self.declared})


class AksPoolDeclarationArgs(AksPoolArgs):
    """A GPU pool, and GPU models that no table has."""

    gpu_models: NotRequired[dict[str, dict[str, Any]]]
    """GPU models that no table has, by name, in the words of a stack file."""


class AksPool(PoolDeclaration):
    """A GPU pool on AKS; AksGpuNodePool makes it."""

    declared: pulumi.Output[PoolArgs]
    """The declaration, for `pool` and `pools` of other components."""

    def __init__(self, name: str, args: AksPoolDeclarationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool."""
        known = known_args(f"AksPool({name})", args, AksPoolDeclarationArgs)
        self._declare(name, known, opts, {"platform": "aks"})


class MagnumPoolDeclarationArgs(MagnumPoolArgs):
    """A GPU node group, what its flavor has, and of which cloud."""

    magnum_driver: str
    """Magnum's driver in this cloud: heat, magnum-cluster-api or capi-helm."""
    hardware: NotRequired[FlavorArgs]
    """What its flavor has."""
    gpu_models: NotRequired[dict[str, dict[str, Any]]]
    """GPU models that no table has, by name, in the words of a stack file."""


class MagnumPool(PoolDeclaration):
    """A GPU pool on Magnum; MagnumGpuNodePool makes it, PoolLabels labels its nodes."""

    declared: pulumi.Output[PoolArgs]
    """The declaration, for `pool` and `pools` of other components."""

    def __init__(self, name: str, args: MagnumPoolDeclarationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool."""
        group: dict[str, Any] = {**known_args(f"MagnumPool({name})", args, MagnumPoolDeclarationArgs)}
        self._declare(name, group, opts, {"platform": "magnum", "driver": group.pop("magnum_driver")})


class ExistingPoolDeclarationArgs(ExistingPoolArgs):
    """A GPU pool, and GPU models that no table has."""

    gpu_models: NotRequired[dict[str, dict[str, Any]]]
    """GPU models that no table has, by name, in the words of a stack file."""


class ExistingPool(PoolDeclaration):
    """A GPU pool whose nodes are there; PoolLabels labels them."""

    declared: pulumi.Output[PoolArgs]
    """The declaration, for `pool` and `pools` of other components."""

    def __init__(self, name: str, args: ExistingPoolDeclarationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool."""
        known = known_args(f"ExistingPool({name})", args, ExistingPoolDeclarationArgs)
        self._declare(name, known, opts, {"platform": "existing"})
