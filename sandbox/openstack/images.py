"""What an image of the seed file says of itself.

The standard library alone, since Magnum's driver reads it in Magnum's environment, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULTS: Final = {"os_distro": "fedora-coreos", "kube_version": "v1.36.3"}
_KEYS: Final = {"os_distro": "osDistro", "kube_version": "kubeVersion"}


def images(seed: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The images of a seed: name -> the properties that it has of os_distro and kube_version."""
    described = [item if isinstance(item, dict) else {"name": item} for item in seed.get("images", [])]
    return {image["name"]: _properties(image) for image in described}


def _properties(image: Mapping[str, str]) -> dict[str, str]:
    """What is not said is there; what is said to be empty is not."""
    given = {key: image.get(_KEYS[key], default) for key, default in _DEFAULTS.items()}
    return {key: value for key, value in given.items() if value}
