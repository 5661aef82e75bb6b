"""A measurement as a JSON document: to keep, to show, and to compare with a later one.

Seconds, MiB and operations per second throughout. What is not known is null. A document of another version is refused, since its
figures may mean something else.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.bench.statistics import loss
from gpu_pools.sharing.modes import MODES

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = "gpu-pools/bench/v1"


@dataclass(frozen=True)
class Row:
    """One kind of work by so many clients.

    Attributes:
        kind: of workloads.KINDS.
        clients: how many.
        rate: operations per second of all together, the median window.
        lowest: window.
        highest: window.
        fairness: Jain's index of the clients' rates.
        client_rates: of each.
        latency: "50", "90", "99" -> seconds.
        longest: operation; None where there was none.
        held_mib: what clients hold by their own account, all together.
        used_mib: what is used of the GPU more than before the first client; None where the driver does not say (MIG).
        errors: of clients that failed.
        state: nvidia-smi's, right after.
    """

    kind: str
    clients: int
    rate: float
    lowest: float
    highest: float
    fairness: float
    client_rates: tuple[float, ...]
    latency: Mapping[str, float]
    longest: float | None
    held_mib: int
    used_mib: int | None
    errors: tuple[str, ...]
    state: Mapping[str, str]


@dataclass(frozen=True)
class Neighbour:
    """A quiet client, an inference, alone and beside floods.

    Attributes:
        floods: clients that fill the GPU's queue.
        latency: of the quiet one, "50", "90", "99" -> seconds.
        longest: request of it; None where none ended.
        rate: requests per second of it.
        flood_rate: operations per second of the floods together.
    """

    floods: int
    latency: Mapping[str, float]
    longest: float | None
    rate: float
    flood_rate: float


@dataclass(frozen=True)
class Bystander:
    """What became of a client that worked while another failed.

    Attributes:
        kind: of its work.
        before: operations per second before.
        after: the same, after.
        longest_gap: seconds without the end of an operation, after.
        error: what ended it; None where it went on.
    """

    kind: str
    before: float
    after: float
    longest_gap: float
    error: str | None


@dataclass(frozen=True)
class FaultSeen:
    """A client does what harms others.

    Attributes:
        what: `memory`: takes all that is left, and keeps it; `crash`: breaks its context, by an assertion (PyTorch) or a wild
            address (CUDA); `kill`: is killed as it works.
        error: what it says itself.
        others: what became of these.
        newcomer: what a client says that comes after it; None where it works.
    """

    what: str
    error: str | None
    others: tuple[Bystander, ...]
    newcomer: str | None


@dataclass(frozen=True)
class Document:
    """A measurement.

    Attributes:
        date: when it began, ISO 8601.
        backend: `torch`, `cuda` or `sleeper`, with the version.
        strategy: `exclusive`, `timeSlicing`, `mps` or `mig`: how clients shared.
        limits: of each client under MPS, as replicas; None for none.
        machine: GPU, system and MIG devices.
        settings: of the GPU, before.
        changed: those that were others afterwards; empty where all is well.
        effort: windows and their lengths.
        rows: throughput.
        neighbours: what floods do to a quiet one.
        faults: what a failing one does to others.
    """

    date: str
    backend: str
    strategy: str
    limits: int | None
    machine: Mapping[str, Any]
    settings: Mapping[str, str]
    changed: Mapping[str, str]
    effort: Mapping[str, float]
    rows: tuple[Row, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    faults: tuple[FaultSeen, ...] = ()

    @property
    def title(self) -> str:
        """The strategy and the GPU, for people."""
        words = MODES[self.strategy].title
        limits = f", limits of {self.limits} replicas" if self.limits else ", no limits" if self.strategy == "mps" else ""
        return f"{self.machine['gpu']['name']}, {words}{limits}"

    def alone(self, kind: str) -> Row | None:
        """The row of one client."""
        return next((row for row in self.rows if row.kind == kind and row.clients == 1), None)

    def lost(self, row: Row) -> float | None:
        """The part of one client's throughput that is lost by sharing.

        None where nobody was measured alone, and under limits: one that is alone has its share only, too.
        """
        alone = self.alone(row.kind)
        return None if alone is None or self.limits else loss(alone.rate, row.rate)


class NoDocument(ValueError):  # noqa: N818 - said to people as it is
    """A file is not a measurement, or one of another version."""


def as_text(document: Document) -> str:
    """The document as JSON."""
    return json.dumps({"version": VERSION, **asdict(document)}, indent=1) + "\n"


def read(text: str, name: str) -> Document:
    """A document back from its text.

    Args:
        text: JSON.
        name: of the file, for messages.

    Raises:
        NoDocument: when it is none.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        message = f"{name}: is not JSON: {error}"
        raise NoDocument(message) from None
    version = raw.get("version") if isinstance(raw, dict) else None
    if version != VERSION:
        message = f"{name}: version is {version!r}; only {VERSION!r} is known. `gpu-pools bench --json FILE` writes it."
        raise NoDocument(message)
    if raw.get("strategy") not in MODES:
        message = f"{name}: strategy is {raw.get('strategy')!r}; there are {', '.join(MODES)}"
        raise NoDocument(message)
    try:
        known = {one.name: raw[one.name] for one in fields(Document)}
        known["rows"] = tuple(
            Row(**{**row, "client_rates": tuple(row["client_rates"]), "errors": tuple(row["errors"])}) for row in known["rows"]
        )
        known["neighbours"] = tuple(Neighbour(**one) for one in known["neighbours"])
        known["faults"] = tuple(
            FaultSeen(**{**one, "others": tuple(Bystander(**other) for other in one["others"])}) for one in known["faults"]
        )
        return Document(**known)
    except (KeyError, TypeError) as error:
        message = f"{name}: is not whole: {error}"
        raise NoDocument(message) from None
