"""What a stack would wait for on real kubelets, scaled to the simulated ones.

A real kubelet brings a changed ConfigMap to its pods' volumes within a minute and a half; the simulated ones take
`SYNC_SECONDS` where a real one takes a minute, and the copy of the stack file that the engine works with says so. The user's
own number stays, and so does every other character: the text is added to, never written anew. So is the section of a stack that
is observed: values come more often there than on a real cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

from gpu_pools.stack.observability import PATH
from sandbox.machines.config_volumes import SYNC_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The section of a stack that is observed and has none.
OBSERVED: Final[Mapping[str, object]] = {"intervalSeconds": 10}
_SECTION: Final = "gpu-pools:operator"
_SETTING: Final = "kubeletSyncSeconds"
#: A section that Pulumi has encrypted.
_SECURE: Final = "secure"


def with_sync(text: str) -> str:
    """The text of a stack file, saying how often the simulated kubelets synchronise; as it is where that cannot be said."""
    try:
        config = _inside(yaml.compose(text, Loader=yaml.SafeLoader), "config")
    except yaml.YAMLError:
        return text
    if not isinstance(config, yaml.MappingNode) or not config.value:
        return text
    section = _inside(config, _SECTION)
    if section is None:
        return _added(text, config, f"{_SECTION}: {{{_SETTING}: {SYNC_SECONDS:g}}}")
    if not isinstance(section, yaml.MappingNode) or {_SETTING, _SECURE} & {key.value for key, _ in section.value}:
        return text
    return _added(text, section, f"{_SETTING}: {SYNC_SECONDS:g}")


def with_observability(text: str) -> str:
    """The text of a stack file, with a section of observability where it has none; as it is where that cannot be said."""
    try:
        config = _inside(yaml.compose(text, Loader=yaml.SafeLoader), "config")
    except yaml.YAMLError:
        return text
    if not isinstance(config, yaml.MappingNode) or not config.value or _inside(config, PATH) is not None:
        return text
    return _added(text, config, f"{PATH}: {{{', '.join(f'{key}: {value}' for key, value in OBSERVED.items())}}}")


def _inside(node: yaml.Node | None, name: str) -> yaml.Node | None:
    entries = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for key, value in entries if key.value == name), None)


def _added(text: str, mapping: yaml.MappingNode, entry: str) -> str:
    if mapping.flow_style:
        at = mapping.start_mark.index + 1
        return f"{text[:at]}{entry}{', ' if mapping.value else ''}{text[at:]}"
    first = mapping.value[0][0].start_mark
    return f"{text[: first.index]}{entry}\n{' ' * first.column}{text[first.index :]}"
