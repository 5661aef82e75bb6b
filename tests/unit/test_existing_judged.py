"""Existing files as `check` and `import` print them; a change of what they say is shown by its difference in git.

The files of data/judged are short: a clause of the real software each, or a value at the edge of one. Where the rules come from
stands in gpu_pools/existing (device_plugin_config.yaml, and the docstring of each check); tests/sandbox/real asks the decoder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_pools.cli.main import main
from tests.unit.existing_files import DATA, FIXTURES

JUDGED = DATA / "judged"
OWN = tuple(sorted(path.stem for path in JUDGED.glob("*.yaml")))
#: What is printed -> how it was asked for, where that is not by the name of a file alone.
ASKED = {
    "mig-entries-of-an-old-mig-parted.check.txt": ["check", "--mig-parted", "0.12.2", "mig-entries.yaml"],
    "mig-entries-of-a-newer-mig-parted.check.txt": ["check", "--mig-parted", "0.12.3", "mig-entries.yaml"],
    "plugin-keys-of-0.16.check.txt": ["check", "--device-plugin", "0.16", "plugin-keys.yaml"],
    "plugin-sharing-of-0.20.check.txt": ["check", "--device-plugin", "0.20", "plugin-sharing.yaml"],
    "joined.import.txt": ["import", "join-slices.yaml", "join-layouts.yaml"],
    "from-the-field.import.txt": ["import", *(f"../{name}" for name in FIXTURES)],
    **{f"{name}.check.txt": ["check", f"{name}.yaml"] for name in OWN},
    **{f"{name}.import.txt": ["import", f"{name}.yaml"] for name in OWN},
    **{f"{Path(name).stem}.check.txt": ["check", f"../{name}"] for name in FIXTURES},
}


@pytest.mark.parametrize("printed", ASKED)
def test_an_existing_file_as_it_is_judged(
    printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(JUDGED)
    main(ASKED[printed])
    assert capsys.readouterr().out == (JUDGED / printed).read_text(encoding="utf-8")


def test_all_that_is_kept_is_asked_for() -> None:
    assert sorted(ASKED) == sorted(path.name for path in JUDGED.glob("*.txt"))
