"""The section ``gpu-pools:cluster`` of a cluster that is there already, reached through a kubeconfig."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpu_pools.reading.fields import Kind, Row, row, text
from gpu_pools.stack.allocation import ALLOCATION, CLUSTER_DOC, CLUSTER_SAYS
from gpu_pools.stack.cluster import Cluster

if TYPE_CHECKING:
    from gpu_pools.reading.section import Section
    from gpu_pools.stack.allocation import Allocation


def _content(section: Section, one: Row) -> str | None:
    """A kubeconfig; what is in it is never shown."""
    written = section.raw(one.key)
    if written is None or (isinstance(written, str) and written.strip()):
        if written is not None and section.given("kubeconfig"):
            section.problems.add(
                section.at(one.key), "stands beside `kubeconfig`", allowed="one of the two", remedy="Keep one of them."
            )
        return written
    section.problems.add(
        section.at(one.key), "is not a text", allowed="the contents of a kubeconfig file", remedy="Give the file's text."
    )
    return None


@dataclass(frozen=True)
class ExistingSettings(Cluster):
    """A cluster that is there already, reached through a kubeconfig and a context of it."""

    platform: ClassVar[str] = "existing"
    makes_nodes: ClassVar[bool] = False
    machines_are_virtual: ClassVar[bool] = False
    sets_taints: ClassVar[bool] = False
    containerd_reads_one_file: ClassVar[bool] = False

    kubeconfig: str | None = row("Path of a kubeconfig file; by default KUBECONFIG, else ~/.kube/config.", text())
    kubeconfig_content: str | None = row(
        "A kubeconfig itself, instead of a file; a secret.",
        Kind(_content, "pulumi.Input[str]"),
        doc="A kubeconfig itself, instead of a file: `pulumi config set --secret --path gpu-pools:cluster.kubeconfigContent`.",
    )
    context: str | None = row("Context of that file; its current one by default.", text())
    allocation: Allocation | None = row(CLUSTER_SAYS, ALLOCATION, doc=CLUSTER_DOC)

    @property
    def was_there(self) -> bool:
        """Always."""
        return True
