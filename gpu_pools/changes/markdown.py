"""The blast radius as one comment of a pull request.

What is worst comes first, what is long is folded away. Texts of others (names, messages of policies) can neither break a table
nor become markup or a mention: gpu_pools/text/markup.py sees to that, and no line is made otherwise. A hidden first line tells
whoever updates the comment which one it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpu_pools.mig.picture import Pen, draw, ruler, unit_width
from gpu_pools.stack.settings import NAMESPACE
from gpu_pools.text import harmless
from gpu_pools.text.incidents import explained
from gpu_pools.text.markup import Html, Markdown
from gpu_pools.text.table import resources_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpu_pools.changes.acknowledged import Ending
    from gpu_pools.changes.blast import BlastRadius, Sums
    from gpu_pools.changes.pools import GpuChange, PoolChange
    from gpu_pools.changes.report_basis import ReportBasis
    from gpu_pools.changes.steps import Finding
    from gpu_pools.changes.upkeep import Upkeep
    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.mig.geometry import Arrangement
    from gpu_pools.plan.planned import PoolPlan

_PEN: Final = Pen("│", "·", colour=False)
_WORDS: Final = {
    "created": "its nodes are new",
    "joined": "its nodes are there already: they get its labels, and share their GPUs as declared",
    "deleted": "its nodes go, and the pods on them",
    "left": "its nodes stay, without labels of this stack: new pods find whole GPUs, or with an operator of others what is there",
    "renamed": "its nodes get the label of another pool",
    "shrunk": "nodes go, and the pods on them; which ones the cloud chooses",
    "replaced": "its nodes and the pods on them go, and other nodes come",
    "rotated": "another pool is made first and proven; then the old nodes are drained, and go",
    "rebooted": "its nodes start anew",
    "repartitioned": "its MIG instances are destroyed, and others are made",
    "reshared": "the device plugin advertises other shares; running pods keep theirs",
    "reallocated": "its GPUs change between the device plugin and resource claims, on all nodes at once; running pods stay",
    "reloaded": "the device plugin reads a new config and starts anew; what it advertises, and running pods, stay",
    "upgraded": "its nodes are renewed one after the other: pods with GPUs end there, and find another node if there is one",
    "cordoned": "its nodes take no new pods for minutes, one after the other; pods that run there stay",
    "resized": "it may have more or fewer nodes",
    "relabelled": "its nodes get other labels or taints",
}
_HOW: Final = {
    "vanishes": "vanishes",
    "shrinks": "becomes less",
    "interrupted": "is back afterwards; pods there end",
}
_NO_STACK_NAME: Final = re.compile(r"[^\w./-]")
_NOTHING: Final = Markdown()
_FENCE: Final = Markdown("```")
#: GitHub's longest comment has 65,536 characters.
_LONGEST: Final = 60_000


def comment(stack: str, radius: BlastRadius, basis: ReportBasis) -> str:
    """The whole comment; it ends with a line that says so where it had to be cut."""
    lines = [_marker(stack), Markdown.of("## GPU pools of {}: {}", stack, _headline(radius)), _NOTHING]
    for part in (_blocked, _pools, _renewed, _figures, _extra_gpus, _away, _affected, _advice, _layouts, _policies):
        lines += [*part(radius)]
    lines += [*_ids(lines), *_rests_on(basis)]
    text = Markdown.all(lines, "\n").rstrip() + "\n"
    return (
        text if len(text) <= _LONGEST else text[:_LONGEST].rpartition("\n")[0] + "\n\n_Cut: the JSON document has all of it._\n"
    )


def _marker(stack: str) -> Markdown:
    """A comment in HTML, in which nothing can be escaped."""
    return Markdown(f"<!-- gpu-pools preview of {_NO_STACK_NAME.sub('-', stack)} -->")


def _headline(radius: BlastRadius) -> Markdown:
    touched = [pool for pool in radius.pools if pool.touched]
    if radius.cluster_replaced:
        what = Markdown("the cluster is replaced, with everything in it")
    elif not touched and radius.renewed:
        what = Markdown.of("no pool changes; {} on its nodes", Markdown.all(map(_renewal, radius.renewed), "; "))
    elif not touched:
        what = Markdown("no pool is touched")
    else:
        what = Markdown.all((Markdown.of("{} {}", pool.name, " and ".join(pool.effects)) for pool in touched), "; ")
    return Markdown.of("{} (blocked)", what) if radius.blocked else what


def _renewal(one: Upkeep) -> str:
    """In a few words."""
    return f"{one.what} {one.before} → {one.after}" if one.before or one.after else f"{len(one.restarts)} DaemonSets restart"


def _blocked(radius: BlastRadius) -> Iterator[Markdown]:
    if radius.blocked:
        yield Markdown("**This change must not be deployed as it is:**")
        yield from (Markdown.of("- {}", reason) for reason in radius.blocked)
        yield _NOTHING
    if not radius.complete:
        yield Markdown(
            "The engine stopped at what is protected, so it did not tell all that happens: everything in the cluster is taken"
        )
        yield Markdown("for replaced, and policies may not have judged all of it.")
        yield _NOTHING
    for one in radius.endings:
        yield from _ending(one)
    yield from _acknowledgements(radius.endings)
    for entry in radius.standing:
        means = "keeps its protection off" if entry.holds else "is used up: take it out"
        which = Markdown.code(entry.change), Markdown.code(entry.resource)
        yield Markdown.of("The acknowledgement {} of {} {}.", *which, means)
        yield _NOTHING


def _ending(one: Ending) -> Iterator[Markdown]:
    sides = ([Markdown.code(part) for part in change] for change in one.changes)
    changed = Markdown.all((Markdown.of("{}: {} → {}", *parts) for parts in sides), "; ")
    replaced = one.how == "is replaced"
    because = Markdown.of(" ({})", changed) if changed else Markdown(" (it follows what it lies in)" if replaced else "")
    sentence = Markdown.of("The {} {}{}", _called(one), one.how, because)
    if one.acknowledged is not None:
        yield Markdown.of("{}. Acknowledged: {}", sentence, one.acknowledged)
        yield _NOTHING
    elif one.id:
        yield Markdown.of("{}. It needs an acknowledgement{}.", sentence, " with another reason" if one.used else "")
        yield _NOTHING


def _acknowledgements(endings: Sequence[Ending]) -> Iterator[Markdown]:
    """The entries of all of them in one section, since a stack file has each section once."""
    if first := [(one.resource, one.first) for one in endings if one.first]:
        yield Markdown(
            "What is deployed is protected, and the engine deletes nothing protected together with other changes. So first write"
        )
        yield Markdown("this into the stack file as it is deployed, without this change, and deploy it:")
        yield from _section(first)
    if ids := [(one.resource, one.id) for one in endings if one.acknowledged is None and one.id]:
        yield Markdown("To deploy this change all the same, write into the stack file:")
        yield from _section(ids)
    if first or ids:
        yield Markdown.of(
            "If the file has the section {} already, add the entries to it. A new entry replaces the one of the same change.",
            Markdown.code(f"{NAMESPACE}:acknowledged"),
        )
        yield _NOTHING


def _called(one: Ending) -> Markdown:
    return (
        Markdown.of("{} {}", one.what, Markdown.code(one.resource)) if one.what != one.resource else Markdown.of("{}", one.what)
    )


def _section(entries: Sequence[tuple[str, str]]) -> Iterator[Markdown]:
    lines = ((f"    - resource: {resource}", f"      change: {change}", "      reason: …") for resource, change in entries)
    yield from _fenced("yaml", f"  {NAMESPACE}:acknowledged:", *(line for entry in lines for line in entry))
    yield _NOTHING


def _fenced(language: str, *lines: str) -> Iterator[Markdown]:
    """Lines as they are; none of them ends the fence."""
    yield Markdown(f"```{language}")
    yield from (Markdown(harmless.line(line).replace("`", "'")) for line in lines)
    yield _FENCE


def _pools(radius: BlastRadius) -> Iterator[Markdown]:
    yield from _table("pool", "what happens", "nodes", "GPUs of a node", "sharing", "each node advertises")
    for pool in radius.pools:
        sides = [side for side in (pool.before, pool.after) if side]
        cells = [_both([read(side) for side in sides]) for read in (_nodes, _hardware, _sharing, _advertised)]
        happens = Markdown.of("**{}**", " and ".join(pool.effects)) if pool.touched else Markdown("-")
        yield _row(Markdown.code(pool.name), happens, *cells)
    yield _NOTHING
    yield from (
        Markdown(f"- {word}: {meaning}") for word, meaning in _WORDS.items() if any(word in pool.effects for pool in radius.pools)
    )
    if len(set(radius.mig_strategy)) > 1:
        strategies = Markdown.all(radius.mig_strategy, " → ")
        yield Markdown.of("- the MIG strategy of the cluster changes, {}: every pool's device plugin starts anew", strategies)
    if radius.verified_within is not None and any(pool.touched and pool.after for pool in radius.pools):
        within = f"{radius.verified_within / 60:g} minutes"
        yield Markdown.of(
            "- afterwards verifiers ask these pools' nodes: each has {} to be as declared, or the deploy fails", within
        )
    yield _NOTHING


def _table(*header: str) -> Iterator[Markdown]:
    yield _row(*header)
    yield Markdown("|" + "---|" * len(header))


def _row(*cells: str) -> Markdown:
    return Markdown.of("| {} |", Markdown.all(cells, " | "))


def _both(texts: list[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else " → ".join(texts)


def _nodes(pool_plan: PoolPlan) -> str:
    low, high = pool_plan.pool.min_nodes, pool_plan.pool.max_nodes
    return str(low) if low == high else f"{low}-{'' if high is None else high}"


def _hardware(pool_plan: PoolPlan) -> str:
    return f"{pool_plan.hardware.gpus}x {pool_plan.hardware.model.key} ({pool_plan.hardware.source})"


def _sharing(pool_plan: PoolPlan) -> str:
    return pool_plan.sharing.text()


def _advertised(pool_plan: PoolPlan) -> str:
    return resources_text(pool_plan.advertises)


def _renewed(radius: BlastRadius) -> Iterator[Markdown]:
    if radius.renewed:
        yield Markdown("### What starts anew on nodes that stay")
        yield from _table("what", "restarts", "on the nodes of", "what happens")
        for one in radius.renewed:
            sides = Markdown.code(one.before), Markdown.code(one.after)
            what = Markdown.of("{} {} → {}", one.what, *sides) if one.before or one.after else one.what
            yield _row(what, _codes(one.restarts) or "the nodes themselves", _codes(one.pools), one.happens)
        yield _NOTHING


def _codes(names: Iterable[str]) -> Markdown:
    return Markdown.all(map(Markdown.code, names), ", ")


def _figures(radius: BlastRadius) -> Iterator[Markdown]:
    yield from _table("in the whole stack", "before", "after")
    yield _row("GPUs", *map(_count, (radius.before, radius.after)))
    for name, before, after in radius.totals:
        yield _row(Markdown.of("{} advertised", Markdown.code(name)), *map(_range, (before, after)))
    if radius.currency:
        costs = ("unknown" if sums.per_month is None else f"{sums.per_month:,.0f}" for sums in (radius.before, radius.after))
        yield _row(f"GPU nodes, {radius.currency} a month at most", *costs)
    yield _NOTHING


def _count(sums: Sums) -> str:
    return _range((sums.gpus_least, sums.gpus_most))


def _range(bounds: tuple[int, int | None]) -> str:
    least, most = bounds
    return str(least) if least == most else f"{least} to {'any number' if most is None else most}"


def _extra_gpus(radius: BlastRadius) -> Iterator[Markdown]:
    if radius.extra_gpus:
        yield Markdown("### What is there twice for a time")
        for one in radius.extra_gpus:
            yield Markdown.of("- {}: {}", Markdown.code(one.pool), one.text(radius.currency))
        yield _NOTHING


def _away(radius: BlastRadius) -> Iterator[Markdown]:
    if radius.dips:
        yield Markdown("### GPUs that are away")
        for dip in radius.dips:
            yield Markdown.of("- {}: {}", Markdown.code(dip.pool), dip.text)
        yield _NOTHING


def _affected(radius: BlastRadius) -> Iterator[Markdown]:
    if radius.affected:
        yield Markdown("### Who loses what they ask for")
        yield from _table("who", "asks for", "what becomes of it", "in pools")
        for one in radius.affected:
            yield _row(one.asking.who, Markdown.code(one.asking.resource), _HOW[one.how], _codes(one.pools))
        yield _NOTHING


def _advice(radius: BlastRadius) -> Iterator[Markdown]:
    if radius.steps:
        yield Markdown("### How to avoid it")
        for pool, steps in radius.steps:
            yield from (Markdown.of("For {}:", Markdown.code(pool)), _NOTHING)
            yield from (Markdown.of("- {}", _sentence(step)) for step in steps)
            yield _NOTHING


def _sentence(text: str) -> Markdown:
    """A text in which names stand between backticks."""
    parts = text.split("`")
    return Markdown.all(Markdown.code(part) if index % 2 else part for index, part in enumerate(parts))


def _layouts(radius: BlastRadius) -> Iterator[Markdown]:
    changed = [pool for pool in radius.pools if pool.gpus]
    if not changed:
        return
    yield from _folded("MIG layouts before and after", [line for pool in changed for line in _pictures(pool)], shown=True)


def _pictures(pool: PoolChange) -> Iterator[Markdown]:
    if pool.after is None:
        return
    model = pool.after.hardware.model
    for one in pool.gpus:
        which = ", ".join(map(str, one.indices))
        yield Markdown.of("{}, on each node GPU {} ({}):", Markdown.code(pool.name), which, model.key)
        yield from _fenced("", *_picture(model, one))
        gone = sum(one.mig.before.values())
        if gone:
            yield Markdown.of("mig-manager destroys all {} instances of such a GPU before it makes new ones.", gone)


def _picture(model: GpuModel, one: GpuChange) -> Iterator[str]:
    width = unit_width(model, [*one.mig.before, *one.mig.after])
    yield f"        {ruler(model, width)}".rstrip()
    yield f"before  {draw(model, _sorted(one.mig.goes, one.mig.stays), width, _PEN)}"
    yield f"after   {draw(model, _sorted(one.mig.stays, one.mig.comes), width, _PEN)}"


def _sorted(some: Arrangement, others: Arrangement) -> Arrangement:
    return tuple(sorted((*some, *others), key=lambda placed: placed.start))


def _policies(radius: BlastRadius) -> Iterator[Markdown]:
    for level, words in (("mandatory", "Policies that stop it"), ("advisory", "Policies that advise")):
        found = [one for one in radius.findings if one.level == level]
        if found:
            yield from _folded(f"{words}: {len(found)}", [line for one in found for line in _finding(one)])


def _finding(one: Finding) -> Iterator[Markdown]:
    yield Markdown.of("- {}", Markdown.code(one.rule))
    yield from (Markdown.of("  {}<br>", line) for line in one.message.strip().splitlines())


def _ids(lines: list[Markdown]) -> Iterator[Markdown]:
    """What the ids above stand for."""
    explanations = explained(lines)
    if explanations:
        yield from _folded("What the ids stand for", [Markdown.of("- {}", line) for line in explanations])


def _rests_on(basis: ReportBasis) -> Iterator[Markdown]:
    previewed = Markdown.of("Previewed against {}. ", basis.against) if basis.against else _NOTHING
    pods = Markdown.of("not looked at: {}", basis.no_pods) if basis.no_pods else "looked at, besides the stack's own workloads"
    yield Markdown.of("_{}Running pods were {}._", previewed, pods)


def _folded(summary: str, lines: list[Markdown], *, shown: bool = False) -> Iterator[Markdown]:
    begin = Markdown("<details open>" if shown else "<details>")
    # In there a forge reads HTML, not Markdown.
    yield from (begin, Markdown(Html.of("<summary>{}</summary>", summary)), _NOTHING, *lines, _NOTHING)
    yield from (Markdown("</details>"), _NOTHING)
