"""From inputs as azure-native's plugin calls them to the arguments of its Python SDK.

Only the names at the top differ: what is below is handed over as it is. So no class of the SDK is made for it, which would fill
in what nobody wrote (podCidr, serviceCidr, dnsServiceIP, outboundType), and a cluster would be replaced for those.
"""

from collections.abc import Mapping
from typing import Any

from gpu_pools.components.engine.outputs import put_back


def arguments(kind: type, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of a resource.

    Args:
        kind: the SDK's class of its arguments.
        inputs: as the plugin calls them; those that are None are left out.
    """
    getters = {name: one.fget for name, one in vars(kind).items() if isinstance(one, property)}
    names = {getattr(getter, "_pulumi_name", None) or name: name for name, getter in getters.items()}
    return {names[key]: put_back(value) for key, value in inputs.items() if value is not None}
