"""What AKS puts into a cluster of its own accord: the kinds of Azure Monitor's add-on for metrics. The add-on itself is left out.

The kinds are those of monitoring.coreos.com in another group (Azure/prometheus-collector at 39583fd5, internal/docs/Operator-
CRD.md; its definitions have all fields that the stand-in's have). Nothing reads what is made of them. A real cluster has them
some minutes after the add-on was switched on, this one at once; and keeps them here when it is switched off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from sandbox.cluster.api import Api
from sandbox.providers.chart_sources import STAND_INS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DEFINITIONS: Final = STAND_INS / "kube-prometheus-stack" / "crds" / "monitoring.coreos.com.yaml"
_PLACE: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_GROUP: Final = "azmonitoring.coreos.com"
_KINDS: Final = ("ServiceMonitor", "PodMonitor")


def define_monitors(kubeconfig: Path) -> None:
    """Have a cluster know the kinds.

    Args:
        kubeconfig: of its administrator.
    """
    api = Api.at(kubeconfig)
    for definition in monitor_definitions():
        if api.get(f"{_PLACE}/{definition['metadata']['name']}") is None:
            api.create(_PLACE, definition)


def monitor_definitions() -> Iterator[dict[str, Any]]:
    """Of both kinds."""
    for definition in yaml.safe_load_all(_DEFINITIONS.read_text(encoding="utf-8")):
        spec = definition["spec"]
        if spec["names"]["kind"] in _KINDS:
            name = f"{spec['names']['plural']}.{_GROUP}"
            yield {**definition, "metadata": {"name": name}, "spec": {**spec, "group": _GROUP}}
