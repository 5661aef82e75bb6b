"""What a registry of one's own changes: values of the charts, and the Secret by which nodes pull.

Of the charts each repository is moved to the mirror, and each list of pull secrets named. Not the drivers that the driver
container downloads while it builds, nor charts themselves: who deploys fetches these, logged in by `helm registry login`.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from gpu_pools.hardware.chart_images import default_repositories, pull_secret_values

if TYPE_CHECKING:
    from gpu_pools.stack.charts import ChartSettings
    from gpu_pools.stack.registry import RegistrySettings


def chart_registry_values(chart: ChartSettings, registry: RegistrySettings) -> dict[str, Any]:
    """The values by which a chart's images come from the mirror, pulled with its Secret."""
    values: dict[str, Any] = {}
    if registry.mirror:
        for dotted, repository in _repositories(chart).items():
            _put(values, dotted, registry.mirrored(repository))
    if registry.pull_secret:
        # The operator's chart lists names, that of NFD objects.
        secrets: Any = [registry.pull_secret] if chart.name == "gpu-operator" else registry.pull_secrets
        for dotted in _secrets(chart):
            _put(values, dotted, list(secrets))
    return values


def docker_config(server: str, username: str, password: str) -> str:
    """A Secret's ``.dockerconfigjson``, in clear."""
    auth = base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
    return json.dumps({"auths": {server: {"username": username, "password": password, "auth": auth}}})


def _repositories(chart: ChartSettings) -> dict[str, str]:
    found = chart.own.repositories if chart.own else default_repositories(chart.name, chart.version)
    return dict(found)


def _secrets(chart: ChartSettings) -> list[str]:
    if chart.own is None:
        return list(pull_secret_values(chart.name, chart.version))
    return [f"{dotted}imagePullSecrets" for dotted in chart.own.pulling]


def _put(values: dict[str, Any], dotted: str, value: object) -> None:
    *above, last = dotted.split(".")
    inner = values
    for key in above:
        inner = inner.setdefault(key, {})
    inner[last] = value
