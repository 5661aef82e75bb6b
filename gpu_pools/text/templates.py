"""Fills the templates of HTML pages (jinja2): a value is text there, unless it is markup of ours.

This module makes each value harmless, as gpu_pools/text/markup.py does: jinja2's own escaping leaves control characters and turns
of direction as they are. That escaping stays on behind it. A name that nobody has given a value is an error.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from gpu_pools.text.markup import Html

if TYPE_CHECKING:
    from jinja2 import Environment


def fill(package: str, template: str, **values: object) -> str:
    """Fill a template.

    Args:
        package: has the template, and those that it imports.
        template: the file's name.
        values: by the names that the template uses.
    """
    return _environment(package).get_template(template).render(values)


@lru_cache(maxsize=8)
def _environment(package: str) -> Environment:
    import jinja2  # noqa: PLC0415 - it takes time to load, and most commands write no page

    def read(name: str) -> str:
        return resources.files(package).joinpath(name).read_text(encoding="utf-8")

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(read),
        autoescape=True,
        finalize=_to_harmless,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _to_harmless(value: object) -> object:
    """Markup as it is: ours, and what a macro has written. Anything else as text."""
    return value if hasattr(value, "__html__") else Html.escaped(value)
