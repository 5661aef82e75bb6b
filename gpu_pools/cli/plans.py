"""``gpu-pools plan STACKFILE [--json]``: what a stack file means, with no cloud, no engine and no cluster.

``expect STACKFILE [POOL]`` prints what the verifier of a pool compares nodes with, so that it can be run by hand.
``claims STACKFILE [POOL]`` prints a template of resource claims for each kind of device of the pool, and a pod that uses it.

Exit codes: 0 the stack can be planned, 2 it cannot.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import yaml

from gpu_pools.plan.document import plan_json, plan_table, problems_json
from gpu_pools.plan.dra import claim_documents
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError

if TYPE_CHECKING:
    import argparse

    from gpu_pools.plan.planned import Plan, PoolPlan

_INVALID = 2
#: Has nvidia-smi from the node's driver, and nothing else of CUDA.
_IMAGE = "ubuntu:24.04"
_STACK_FILE = "a stack file, e.g. stacks/Pulumi.aks-dev.yaml; - for the standard input"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``plan``, ``expect`` and ``claims``."""
    plan = commands.add_parser("plan", help="show what every node of a stack will advertise")
    plan.add_argument("stackfile", help=_STACK_FILE)
    plan.add_argument("--json", action="store_true", help="print JSON for machines")
    plan.set_defaults(run=_plan)
    expect = commands.add_parser("expect", help="print the expectation document of a pool, for the verifier")
    expect.add_argument("stackfile", help=_STACK_FILE)
    expect.add_argument("pool", nargs="?", help="the pool; may be left out where there is only one")
    expect.add_argument("--json", action="store_true", help="print problems as JSON too; the document always is")
    expect.set_defaults(run=_expect)
    claims = commands.add_parser(
        "claims", help="print resource claims for a pool with `allocation: dra`, and a pod that uses them"
    )
    claims.add_argument("stackfile", help=_STACK_FILE)
    claims.add_argument("pool", nargs="?", help="the pool; may be left out where there is only one")
    claims.add_argument("--image", default=_IMAGE, help=f"of the pod ({_IMAGE})")
    claims.add_argument("--json", action="store_true", help="print JSON for machines")
    claims.set_defaults(run=_claims)


def _read_plan(options: argparse.Namespace) -> Plan | None:
    """The plan of the stack file; None, and its problems printed, where it cannot be planned."""
    try:
        return plan_config(read_stack_file(options.stackfile), complete=False)
    except InvalidStackError as error:
        if options.json:
            print(json.dumps(problems_json(error.problems), indent=2))
        else:
            print(error, file=sys.stderr)
        return None


def _plan(options: argparse.Namespace) -> int:
    plan = _read_plan(options)
    if plan is None:
        return _INVALID
    print(json.dumps(plan_json(plan), indent=2) if options.json else plan_table(plan))
    return 0


def _expect(options: argparse.Namespace) -> int:
    plan = _read_plan(options)
    pool_plan = _chosen(plan, options.pool) if plan else None
    if plan is None or pool_plan is None:
        return _INVALID
    print(json.dumps(node_expectation(plan, pool_plan), indent=2))
    return 0


def _claims(options: argparse.Namespace) -> int:
    plan = _read_plan(options)
    pool_plan = _chosen(plan, options.pool) if plan else None
    if pool_plan is None:
        return _INVALID
    if not pool_plan.devices:
        print(f"error: pods get the GPUs of pool {pool_plan.name} from the device plugin.", file=sys.stderr)
        print("Write `allocation: dra` for the pool, or for the cluster.", file=sys.stderr)
        return _INVALID
    documents = [one for device in pool_plan.devices for one in claim_documents(pool_plan, device, options.image)]
    if options.json:
        print(json.dumps(documents, indent=2))
    else:
        print(yaml.safe_dump_all(documents, sort_keys=False), end="")
    return 0


def _chosen(plan: Plan, name: str | None) -> PoolPlan | None:
    """The pool that is named, or the only one; None, and the names printed, where there is no such pool."""
    pools = {pool.name: pool for pool in plan.pools}
    name = name or (next(iter(pools)) if len(pools) == 1 else None)
    if name in pools:
        return pools[name]
    said = f'there is no pool "{name}"' if name else "name one of the pools"
    print(f"error: {said}; the stack has {', '.join(pools)}.", file=sys.stderr)
    return None
