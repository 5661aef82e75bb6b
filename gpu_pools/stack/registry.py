"""The section ``gpu-pools:registry``: a registry of one's own, from which a site's nodes pull all images of a stack.

A mirror keeps the path of an image below its own: ``nvcr.io/nvidia/k8s-device-plugin`` is ``MIRROR/nvidia/k8s-device-plugin``. So
two registries with an image of the same path cannot share one. Which images there are, and their digests, is not asked here
(`gpu-pools images` asks). Who pulls is a robot of the registry, never the deploying user: its password is in every node's reach.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.image_names import read_image_name
from gpu_pools.reading.section import Section

if TYPE_CHECKING:
    from gpu_pools.text.errors import Problems

#: Of a Secret that the stack makes.
PULL_SECRET: Final = "gpu-pools-registry"  # noqa: S105 - a name
_MIRROR: Final = r"[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
_NAME: Final = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"


@dataclass(frozen=True)
class RegistrySettings:
    """Where images come from.

    Attributes:
        mirror: host, and a path below it; None: from where their makers publish them.
        pull_secret: name of the Secret that pods name; None: they name none.
        username: with it the stack makes that Secret, wherever its pods run.
        password: of that user.
    """

    mirror: str | None = None
    pull_secret: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)

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
    mirror = section.text(
        "mirror",
        pattern=_MIRROR,
        allowed="a registry's host, and a path below it, e.g. registry.example.com/mirror",
        remedy="Leave out https:// and a slash at the end.",
    )
    secret = section.text("pullSecret", pattern=_NAME, allowed="the name of a Secret")
    username, password = section.text("username"), _password(section)
    if (username is None) != (password is None) and section.given("username") != section.given("password"):
        section.problems.add(path, "has one of username and password", allowed="both, or neither", remedy="Add the other one.")
    if username and not section.given("mirror"):
        section.problems.add(
            section.at("mirror"), "is missing", allowed="the registry that the user is of", remedy="Name it: `mirror: …`."
        )
    section.finish()
    return RegistrySettings(mirror, secret or (PULL_SECRET if username else None), username, password)


def _password(section: Section) -> str | None:
    written = section.raw("password")
    if written is None or (isinstance(written, str) and written):
        return written
    # Never shown, whatever it is.
    section.problems.add(
        section.at("password"),
        "is not a text",
        allowed="a secret text",
        remedy="Set it: `pulumi config set --secret --path gpu-pools:registry.password`.",
    )
    return None
