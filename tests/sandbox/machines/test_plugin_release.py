from __future__ import annotations

import pytest

from sandbox.machines.plugin_release import FIRST, HASTY, NEWEST, PluginRelease, release_of

IMAGE = "nvcr.io/nvidia/k8s-device-plugin"


@pytest.mark.parametrize(
    ("image", "release"),
    [
        (f"{IMAGE}:v0.17.0", FIRST),
        (f"{IMAGE}:v0.17.4", FIRST),
        (f"{IMAGE}:v0.18.1", FIRST),
        (f"{IMAGE}:v0.18.1-ubi9", FIRST),
        (f"{IMAGE}:v0.18.2", HASTY),
        (f"{IMAGE}:v0.19.0", HASTY),
        ("registry:5000/k8s-device-plugin:v0.19.3", HASTY),
        (f"{IMAGE}:v0.20.0", NEWEST),
        (f"{IMAGE}:v1.0", NEWEST),
        (f"{IMAGE}@sha256:{'0' * 64}", NEWEST),
        ("registry:5000/k8s-device-plugin", NEWEST),
        ("", NEWEST),
    ],
)
def test_the_release_follows_from_the_image(image: str, release: PluginRelease) -> None:
    assert release_of(image) == release
