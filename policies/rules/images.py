"""Images of what this project's components run on the nodes: by digest where an organisation asks for it.

Only what our own components make: what people run beside it is theirs to judge, and what NVIDIA's charts run is named by tag in
them. A value that is not known yet is neither a digest nor a tag: the engine tells it as undecided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.policies import kinds
from gpu_pools.policies.rule import Found, Limit, Rule
from gpu_pools.reading.image_names import read_image_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.policies.reading import Field
    from gpu_pools.policies.rule import Case

_OURS: Final = "gpu-pools:index:"


def _by_digest(case: Case) -> Iterator[Found]:
    if not case.limits["required"] or _OURS not in "".join(case.resource.parent.split("::")[2:3]):
        return

    def judge(container: Field) -> Iterator[Found]:
        image = container.at("image")
        name = read_image_name(image.text())
        if name is None or not name.pinned:
            yield Found(image.path, f'"{image.text()}" has no digest')

    yield from case.each(kinds.containers(kinds.pod_spec(case.resource, case.inputs)), judge)


RULES: Final = (
    Rule(
        name="images-by-digest",
        title="What our components run on the nodes is named by digest",
        incidents=(),
        types=kinds.WORKLOADS,
        judge=_by_digest,
        why="whoever can push to the registry decides what runs on the nodes, at the next pull (W91)",
        repair="Write the image with the digest that `docker buildx imagetools inspect IMAGE` prints.",
        stack_repair="Write it with the digest that `python -m gpu_pools images STACKFILE` tells.",
        limits=(Limit("required", {"type": "boolean"}, default=False),),
    ),
)
