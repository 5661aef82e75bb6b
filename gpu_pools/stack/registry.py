"""The section ``gpu-pools:registry``: a registry of one's own, from which a site's nodes pull all images of a stack.

A mirror keeps the path of an image below its own: ``nvcr.io/nvidia/k8s-device-plugin`` is ``MIRROR/nvidia/k8s-device-plugin``. So
two registries with an image of the same path cannot share one. Which images there are, and their digests, is not asked here
(`gpu-pools images` asks). Who pulls is a robot of the registry, never the deploying user: its password is in every node's reach.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.fields import Kind, Row, read, row, text
from gpu_pools.reading.image_names import read_image_name
from gpu_pools.reading.section import Section

if TYPE_CHECKING:
    from gpu_pools.text.errors import Problems

#: Of a Secret that the stack makes.
PULL_SECRET: Final = "gpu-pools-registry"  # noqa: S105 - a name
_MIRROR: Final = r"[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
_NAME: Final = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"


def _password(section: Section, one: Row) -> str | None:
    written = section.raw(one.key)
    if written is None or (isinstance(written, str) and written):
        return written
    # Never shown, whatever it is.
    section.problems.add(
        section.at(one.key),
        "is not a text",
        allowed="a secret text",
        remedy="Set it: `pulumi config set --secret --path gpu-pools:registry.password`.",
    )
    return None


@dataclass(frozen=True)
class RegistrySettings:
    """A stack file's section `registry`: a registry of one's own, from which all images come."""

    mirror: str | None = row(
        "Its host, and a path below it.",
        text(
            _MIRROR,
            "a registry's host, and a path below it, e.g. registry.example.com/mirror",
            "Leave out https:// and a slash at the end.",
        ),
        doc="Its host, and a path below it: `registry.example.com/mirror`. An image keeps its path: "
        "`nvcr.io/nvidia/k8s-device-plugin` is `registry.example.com/mirror/nvidia/k8s-device-plugin`.",
    )
    pull_secret: str | None = row(
        "Name of the Secret that pods pull with; gpu-pools-registry by default, where a user is named.",
        text(_NAME, "the name of a Secret"),
        doc="Name of the Secret that pods pull with, `gpu-pools-registry` by default; without `username` one that is there "
        "already, in each of the namespaces.",
    )
    username: str | None = row(
        "With it the stack makes that Secret in each of its namespaces.",
        Kind(text().read, "pulumi.Input[str]"),
        doc="Name of a robot that may pull. The stack then makes that Secret in each of its namespaces, and all pods name it.",
    )
    password: str | None = row(
        "Of that user; a secret.",
        Kind(_password, "pulumi.Input[str]"),
        shown=False,
        doc="Of that user, as a secret: `pulumi config set --secret --path gpu-pools:registry.password`.",
    )

    @property
    def pull_secrets(self) -> list[dict[str, str]]:
        """As a pod's ``imagePullSecrets``."""
        return [{"name": self.pull_secret}] if self.pull_secret else []

    @property
    def in_pods(self) -> dict[str, list[dict[str, str]]]:
        """What a pod's spec has of it; nothing where no Secret is named, so that pods stay as they were."""
        return {"imagePullSecrets": self.pull_secrets} if self.pull_secret else {}

    @property
    def server(self) -> str:
        """The mirror's host."""
        return (self.mirror or "").partition("/")[0]

    def mirrored(self, image: str) -> str:
        """An image, or a repository of a chart's values, by its name in the mirror."""
        if self.mirror is None:
            return image
        name = read_image_name(image)
        if name is None:
            return image
        tag = f":{name.tag}" if name.tag else ""
        return f"{self.mirror}/{name.repository}{tag}" + (f"@{name.digest}" if name.digest else "")


def parse_registry(value: object, path: str, problems: Problems) -> RegistrySettings:
    """The section; absent means that images come from where their makers publish them."""
    if value is None:
        return RegistrySettings()
    section = Section(value, path, problems)
    found = read(RegistrySettings, section)
    _check_user(found, section)
    section.finish()
    return replace(found, pull_secret=PULL_SECRET) if found.username and not found.pull_secret else found


def _check_user(found: RegistrySettings, section: Section) -> None:
    """A user has a password, and a registry that it is of."""
    if (found.username is None) != (found.password is None) and section.given("username") != section.given("password"):
        section.problems.add(
            section.path, "has one of username and password", allowed="both, or neither", remedy="Add the other one."
        )
    if found.username and not section.given("mirror"):
        section.problems.add(
            section.at("mirror"), "is missing", allowed="the registry that the user is of", remedy="Name it: `mirror: …`."
        )
