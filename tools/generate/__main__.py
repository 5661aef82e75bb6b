"""`python -m tools.generate`: writes all files, each after those that it is made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.generate import azure_types, component_pages, files, property_reference, schema, stack_reference, type_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_all() -> Iterator[Path]:
    """Write each file; returns the files whose text has changed, as they are written."""
    for path, text in _texts():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            yield path


def _texts() -> Iterator[tuple[Path, str]]:
    """Each file with its text, which is made when the files before it are written."""
    yield files.AZURE_TYPES, azure_types.azure_text()
    yield files.ARGUMENTS, type_text.args_text()
    yield files.MODE_ARGUMENTS, type_text.mode_args_text()
    yield files.STACK_REFERENCE, stack_reference.reference_text()
    yield files.PROPERTIES, property_reference.properties_text()
    yield files.SCHEMA, schema.schema_text()
    yield from component_pages.pages().items()


if __name__ == "__main__":
    for written in write_all():
        print(f"written: {written.relative_to(files.ROOT)}")
