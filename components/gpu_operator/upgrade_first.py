"""What is looked at right before the release of the operator or of NFD is changed, in previews too.

The engine knows which chart is deployed: it gives the hook the release before and after the change. So this hook checks the step
between two versions of the operator for every deploy, also where nobody has run `changes`. Where the operator or the driver
changes, it asks the cluster as well: no earlier upgrade may be unfinished (gpu_pools/plan/operator_upgrade.py). A step back that
was acknowledged is taken as the cluster is: it may be the way out.

What a preview finds half done is a warning there: until the deploy it may be over. A cluster that cannot be asked stops nothing,
and the deploy says so. Not looked at: an operator of another owner, whose release is none of the stack's.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from gpu_pools.components.engine import log
from gpu_pools.components.kubernetes.ask_first import cluster_at, nodes_of, once_known, plain, policies_of, reason
from gpu_pools.plan.drivers import brought, driver_pod_values
from gpu_pools.plan.operator_upgrade import (
    RULES_CRD,
    Found,
    Step,
    old_crd,
    operator_step,
    refusal,
    unacknowledged,
    unfinished,
    warnings,
)
from gpu_pools.plan.planned import Plan
from gpu_pools.stack.charts import ChartSettings
from gpu_pools.text.errors import InvalidStackError, Problem
from gpu_pools.verifier.api import ApiError

#: Kubeconfig of the cluster, and a context of it; without a kubeconfig the cluster is not asked.
Reached = tuple[pulumi.Input[str] | None, str | None]

_HALF_DONE = "not looked for before the deploy: an upgrade that is half done"


def judges_the_step(
    name: str, plan: Plan, reached: Reached, hooks: pulumi.ResourceHookBinding | None
) -> pulumi.ResourceHookBinding:
    """Hooks for the operator's release: those that it has, and the look before it is changed.

    Args:
        name: unique among the hooks of the program.
        plan: what shall be deployed.
        reached: how to ask the cluster.
        hooks: of the release so far.
    """
    known = once_known(reached[0])

    async def judge(change: pulumi.ResourceHookArgs) -> None:
        old, new = await plain(change.old_inputs), await plain(change.new_inputs)
        before = _version(await plain(change.old_outputs), old)
        step = operator_step(before, plan.settings.operator.chart.version) if before else None
        if step:
            _judge(step, plan)
        if _renews_driver(old, new, plan, step):
            await _look(lambda: _nodes_and_policies(known(), reached[1]), plan, step) if known() else None

    return _with(name, judge, hooks)


def asks_for_crds(
    name: str, chart: ChartSettings, reached: Reached, hooks: pulumi.ResourceHookBinding | None
) -> pulumi.ResourceHookBinding:
    """Hooks for NFD's release: those that it has, and the look whether its CRDs are there.

    Args:
        name: unique among the hooks of the program.
        chart: of NFD.
        reached: how to ask the cluster.
        hooks: of the release so far.
    """
    known = once_known(reached[0])

    async def ask(change: pulumi.ResourceHookArgs) -> None:
        before = _version(await plain(change.old_outputs), await plain(change.old_inputs))
        if not known() or not before or before.removeprefix("v") == chart.version.removeprefix("v"):
            return
        try:
            crd = await asyncio.to_thread(_crd, known(), reached[1])
        except Exception as error:  # noqa: BLE001 - whatever it is, a cluster that cannot be asked stops nothing
            log.warn(f"not looked for before the deploy: NFD's CRDs ({reason(error)})")
            return
        if problem := old_crd(crd, chart.version):
            raise InvalidStackError([problem])

    return _with(name, ask, hooks)


def _with(
    name: str, callback: Callable[[pulumi.ResourceHookArgs], Any], hooks: pulumi.ResourceHookBinding | None
) -> pulumi.ResourceHookBinding:
    first = pulumi.ResourceHook(f"{name}-before-upgrade", callback, pulumi.ResourceHookOptions(on_dry_run=True))
    return pulumi.ResourceHookBinding.merge(hooks, pulumi.ResourceHookBinding(before_update=[first]))


def _version(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> str | None:
    """Of the deployed chart: what Helm says of the release; a chart in a folder is declared without a version."""
    status = outputs.get("status")
    found = (status.get("version") if isinstance(status, Mapping) else None) or inputs.get("version")
    return str(found) if found else None


def _judge(step: Step, plan: Plan) -> None:
    """Refuse a step that NVIDIA does not support, and tell what is to be known of one that is taken.

    Raises:
        InvalidStackError: it is refused, or not acknowledged.
    """
    if problem := refusal(step) or unacknowledged(step, plan):
        raise InvalidStackError([problem])
    for warning in warnings(step):
        log.warn(warning)


def _renews_driver(before: Mapping[str, Any], after: Mapping[str, Any], plan: Plan, step: Step | None) -> bool:
    """Whether the operator or the driver is another one afterwards; of what is not known it is taken that it is."""
    if step is None or step.way != "same":
        return True
    if plan.driver != "operator":
        return False
    own = brought(plan)
    old, new = (driver_pod_values(inputs.get("values") or {}, own) for inputs in (before, after))
    return old != new


async def _look(look: Callable[[], Found], plan: Plan, step: Step | None) -> None:
    """Ask the cluster.

    Raises:
        InvalidStackError: something is half done there.
    """
    try:
        found = await asyncio.to_thread(look)
    except Exception as error:  # noqa: BLE001 - whatever it is, a cluster that cannot be asked stops nothing
        log.warn(f"{_HALF_DONE} ({reason(error)})")
        return
    driver = driver_pod_values(plan.operator_values, brought(plan))["version"]
    problems, told = unfinished(found, driver, operator=step is None or step.way != "same")
    for warning in told:
        log.warn(warning)
    if problems and (pulumi.runtime.is_dry_run() or (step and step.backwards)):
        _tell(problems)
    elif problems:
        raise InvalidStackError(problems)


def _tell(problems: list[Problem]) -> None:
    for problem in problems:
        log.warn(str(problem))


def _nodes_and_policies(kubeconfig: str, context: str | None) -> Found:
    api = cluster_at(kubeconfig, context)
    return Found(nodes_of(api), policies_of(api))


def _crd(kubeconfig: str, context: str | None) -> Mapping[str, Any] | None:
    try:
        return cluster_at(kubeconfig, context).get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{RULES_CRD}")
    except ApiError as error:
        if error.status == 404:  # noqa: PLR2004 - HTTP
            return None
        raise
