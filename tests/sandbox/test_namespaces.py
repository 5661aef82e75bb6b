"""What keeps users from user namespaces, read from a kernel's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox.system.namespaces import settings_against

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "forbids", "allows"),
    [
        ("user/max_user_namespaces", "0", "96365"),
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ],
)
def test_a_setting_that_forbids_them_is_named_with_the_remedy(name: str, forbids: str, allows: str, tmp_path: Path) -> None:
    setting = tmp_path / name
    setting.parent.mkdir()
    setting.write_text(f"{forbids}\n")
    (said,) = settings_against(tmp_path)
    dotted = name.replace("/", ".")
    assert said.startswith(f"{dotted} is {forbids} (root allows them by `sysctl -w {dotted}=")
    setting.write_text(f"{allows}\n")
    assert settings_against(tmp_path) == []


def test_several_are_named_all_at_once_and_a_kernel_without_them_has_none(tmp_path: Path) -> None:
    assert settings_against(tmp_path) == []
    for name, value in {"unprivileged_userns_clone": "0", "apparmor_restrict_unprivileged_userns": "1"}.items():
        (tmp_path / "kernel").mkdir(exist_ok=True)
        (tmp_path / "kernel" / name).write_text(value)
    assert len(settings_against(tmp_path)) == 2
