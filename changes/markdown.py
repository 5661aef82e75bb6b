"""The blast radius as one comment of a pull request.

What is worst comes first, what is long is folded away. Texts of others (names, messages of policies) are written so that they can
neither break a table nor become markup or a mention. A hidden first line tells whoever updates the comment which one it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpus.incidents import explained
from gpus.mig_picture import Pen, draw, ruler, unit_width
from gpus.plan import sharing_words
from gpus.tables import resources_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from changes.acknowledged import Ending
    from changes.blast import BlastRadius, Sums
    from changes.pools import GpuChange, PoolChange
    from changes.seen import Seen
    from changes.steps import Finding
    from changes.upkeep import Upkeep
    from gpus.mig import Arrangement
    from gpus.models import GpuModel
    from gpus.plan import PoolPlan

_PEN: Final = Pen("│", "·", colour=False)
_WORDS: Final = {
    "created": "its nodes are new",
    "joined": "its nodes are there already: they get its labels, and share their GPUs as declared",
    "deleted": "its nodes go, and the pods on them",
    "left": "its nodes stay, without labels of this stack: new pods find whole GPUs, or the partitions that are there",
    "renamed": "its nodes get the label of another pool",
    "shrunk": "nodes go, and the pods on them; which ones the cloud chooses",
    "replaced": "its nodes and the pods on them go, and other nodes come",
    "rebooted": "its nodes start anew",
    "repartitioned": "its MIG instances are destroyed, and others are made",
    "reshared": "the device plugin advertises other shares; running pods keep theirs",
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
_MEANT: Final = re.compile(r"([\\`*_{}\[\]<>|#~&])")
_LIKE: Final = str.maketrans("`|\\", "'¦\N{SET MINUS}")
#: GitHub's longest comment has 65,536 characters.
_LONGEST: Final = 60_000


def comment(stack: str, radius: BlastRadius, seen: Seen) -> str:
    """The whole comment; it ends with a line that says so where it had to be cut."""
    lines = [f"<!-- gpu-pools preview of {_plain(stack)} -->", f"## GPU pools of {_plain(stack)}: {_headline(radius)}", ""]
    for part in (_blocked, _pools, _renewed, _figures, _away, _affected, _advice, _layouts, _policies):
        lines += [*part(radius)]
    lines += [*_ids(lines), *_rests_on(seen)]
    text = "\n".join(lines).rstrip() + "\n"
    return (
        text if len(text) <= _LONGEST else text[:_LONGEST].rpartition("\n")[0] + "\n\n_Cut: the JSON document has all of it._\n"
    )


def _headline(radius: BlastRadius) -> str:
    touched = [pool for pool in radius.pools if pool.touched]
    if radius.cluster_replaced:
        what = "the cluster is replaced, with everything in it"
    elif not touched and radius.renewed:
        what = f"no pool changes; {'; '.join(map(_renewal, radius.renewed))} on its nodes"
    elif not touched:
        what = "no pool is touched"
    else:
        what = "; ".join(f"{_plain(pool.name)} {' and '.join(pool.effects)}" for pool in touched)
    return what + (" (blocked)" if radius.blocked else "")


def _renewal(one: Upkeep) -> str:
    """In a few words."""
    return _plain(
        f"{one.what} {one.before} → {one.after}" if one.before or one.after else f"{len(one.restarts)} DaemonSets restart"
    )


def _blocked(radius: BlastRadius) -> Iterator[str]:
    if radius.blocked:
        yield "**This change must not be deployed as it is:**"
        yield from (f"- {_plain(reason)}" for reason in radius.blocked)
        yield ""
    if not radius.complete:
        yield "The engine stopped at what is protected, so it did not tell all that happens: everything in the cluster is taken"
        yield "for replaced, and policies may not have judged all of it."
        yield ""
    for one in radius.endings:
        yield from _ending(one)
    for entry in radius.standing:
        which = f"The acknowledgement {_code(entry.change)} of {_code(entry.resource)}"
        yield f"{which} {'keeps its protection off' if entry.holds else 'is used up: take it out'}."
        yield ""


def _ending(one: Ending) -> Iterator[str]:
    changed = "; ".join(f"`{key}`: {_code(old)} → {_code(new)}" for key, old, new in one.changes)
    replaced = one.how == "is replaced"
    because = f" ({changed})" if changed else " (it follows what it lies in)" if replaced else ""
    which = one.called(_code)
    if one.first:
        yield "What is deployed is protected, and the engine takes nothing protected away with something else. So first, without"
        yield "this change, write into the stack file and deploy:"
        yield from _entry(one.resource, one.first)
        yield ""
    if one.acknowledged is not None:
        yield f"{which[0].upper()}{which[1:]} {one.how}{because}. Acknowledged: {_plain(one.acknowledged)}"
    elif one.id:
        another = ", with another reason" if one.used else ""
        yield f"{which[0].upper()}{which[1:]} {one.how}{because}. To do it all the same, write into the stack file{another}:"
        yield from _entry(one.resource, one.id)
    yield ""


def _entry(resource: str, change: str) -> tuple[str, ...]:
    named = (f"    - resource: {resource}", f"      change: {change}", "      reason: …")
    return ("```yaml", "  gpu-pools:acknowledged:", *named, "```")


def _pools(radius: BlastRadius) -> Iterator[str]:
    yield from ("| pool | what happens | nodes | GPUs of a node | sharing | each node advertises |", "|---|---|---|---|---|---|")
    for pool in radius.pools:
        sides = [side for side in (pool.before, pool.after) if side]
        cells = [_both([read(side) for side in sides]) for read in (_nodes, _hardware, _sharing, _advertised)]
        happens = " and ".join(pool.effects) if pool.touched else "-"
        yield f"| {_code(pool.name)} | {'**' + happens + '**' if pool.touched else happens} | {' | '.join(cells)} |"
    yield ""
    yield from (f"- {word}: {meaning}" for word, meaning in _WORDS.items() if any(word in pool.effects for pool in radius.pools))
    if len(set(radius.mig_strategy)) > 1:
        before, after = radius.mig_strategy
        yield f"- the MIG strategy of the cluster changes, {before} → {after}: every pool's device plugin starts anew"
    if radius.verified_within is not None and any(pool.touched and pool.after for pool in radius.pools):
        within = f"{radius.verified_within / 60:g} minutes"
        yield f"- afterwards verifiers ask these pools' nodes: each has {within} to be as declared, or the deploy fails"
    yield ""


def _both(texts: list[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else " → ".join(texts)


def _nodes(planned: PoolPlan) -> str:
    low, high = planned.pool.min_nodes, planned.pool.max_nodes
    return str(low) if low == high else f"{low}-{'' if high is None else high}"


def _hardware(planned: PoolPlan) -> str:
    return _plain(f"{planned.hardware.gpus}x {planned.hardware.model.key} ({planned.hardware.source})")


def _sharing(planned: PoolPlan) -> str:
    return _plain(sharing_words(planned.sharing))


def _advertised(planned: PoolPlan) -> str:
    return _plain(resources_text(planned.advertises))


def _renewed(radius: BlastRadius) -> Iterator[str]:
    if radius.renewed:
        yield "### What starts anew on nodes that stay"
        yield from ("| what | restarts | on the nodes of | what happens |", "|---|---|---|---|")
        for one in radius.renewed:
            versions = f" {_code(one.before)} → {_code(one.after)}" if one.before or one.after else ""
            restarts = ", ".join(map(_code, one.restarts)) or "the nodes themselves"
            yield f"| {_plain(one.what)}{versions} | {restarts} | {', '.join(map(_code, one.pools))} | {_plain(one.happens)} |"
        yield ""


def _figures(radius: BlastRadius) -> Iterator[str]:
    yield from ("| in the whole stack | before | after |", "|---|---|---|")
    yield f"| GPUs | {' | '.join(map(_count, (radius.before, radius.after)))} |"
    for name, before, after in radius.totals:
        yield f"| {_code(name)} advertised | {' | '.join(map(_range, (before, after)))} |"
    if radius.currency:
        costs = ("unknown" if sums.per_month is None else f"{sums.per_month:,.0f}" for sums in (radius.before, radius.after))
        yield f"| GPU nodes, {_plain(radius.currency)} a month at most | {' | '.join(costs)} |"
    yield ""


def _count(sums: Sums) -> str:
    return _range((sums.gpus_least, sums.gpus_most))


def _range(bounds: tuple[int, int | None]) -> str:
    least, most = bounds
    return str(least) if least == most else f"{least} to {'any number' if most is None else most}"


def _away(radius: BlastRadius) -> Iterator[str]:
    if radius.dips:
        yield "### GPUs that are away"
        for dip in radius.dips:
            yield f"- {_code(dip.pool)}: {dip.text}"
        yield ""


def _affected(radius: BlastRadius) -> Iterator[str]:
    if radius.affected:
        yield "### Who loses what they ask for"
        yield from ("| who | asks for | what becomes of it | in pools |", "|---|---|---|---|")
        for one in radius.affected:
            pools = ", ".join(map(_code, one.pools))
            yield f"| {_plain(one.asking.who)} | {_code(one.asking.resource)} | {_HOW[one.how]} | {pools} |"
        yield ""


def _advice(radius: BlastRadius) -> Iterator[str]:
    if radius.steps:
        yield "### How to avoid it"
        for pool, steps in radius.steps:
            yield from (f"For {_code(pool)}:", "")
            yield from (f"- {step}" for step in steps)
            yield ""


def _layouts(radius: BlastRadius) -> Iterator[str]:
    changed = [pool for pool in radius.pools if pool.gpus]
    if not changed:
        return
    yield from _folded("MIG layouts before and after", [line for pool in changed for line in _pictures(pool)], shown=True)


def _pictures(pool: PoolChange) -> Iterator[str]:
    if pool.after is None:
        return
    model = pool.after.hardware.model
    for one in pool.gpus:
        which = ", ".join(map(str, one.indices))
        yield f"{_code(pool.name)}, on each node GPU {which} ({_plain(model.key)}):"
        yield from ("```", *_picture(model, one), "```")
        gone = sum(one.mig.before.values())
        if gone:
            yield f"mig-manager destroys all {gone} instances of such a GPU before it makes new ones."


def _picture(model: GpuModel, one: GpuChange) -> Iterator[str]:
    width = unit_width(model, [*one.mig.before, *one.mig.after])
    yield f"        {ruler(model, width)}".rstrip()
    yield f"before  {draw(model, _sorted(one.mig.goes, one.mig.stays), width, _PEN)}"
    yield f"after   {draw(model, _sorted(one.mig.stays, one.mig.comes), width, _PEN)}"


def _sorted(some: Arrangement, others: Arrangement) -> Arrangement:
    return tuple(sorted((*some, *others), key=lambda placed: placed.start))


def _policies(radius: BlastRadius) -> Iterator[str]:
    for level, words in (("mandatory", "Policies that stop it"), ("advisory", "Policies that advise")):
        found = [one for one in radius.findings if one.level == level]
        if found:
            yield from _folded(f"{words}: {len(found)}", [line for one in found for line in _finding(one)])


def _finding(one: Finding) -> Iterator[str]:
    yield f"- {_code(one.rule)}"
    yield from (f"  {_plain(line)}<br>" for line in one.message.strip().splitlines())


def _ids(lines: list[str]) -> Iterator[str]:
    """What the ids above stand for."""
    told = explained(lines)
    if told:
        yield from _folded("What the ids stand for", [f"- {_plain(line)}" for line in told])


def _rests_on(seen: Seen) -> Iterator[str]:
    previewed = f"Previewed against {_plain(seen.against)}. " if seen.against else ""
    pods = f"not looked at: {_plain(seen.no_pods)}" if seen.no_pods else "looked at, besides the stack's own workloads"
    yield f"_{previewed}Running pods were {pods}._"


def _folded(summary: str, lines: list[str], *, shown: bool = False) -> Iterator[str]:
    begin = "<details open>" if shown else "<details>"
    yield from (begin, f"<summary>{_plain(summary)}</summary>", "", *lines, "", "</details>", "")


def _plain(text: str) -> str:
    """A text that is only text: no markup, no cell of its own, no mention."""
    return _MEANT.sub(r"\\\1", " ".join(text.split())).replace("@", "@\u2060")


def _code(text: str) -> str:
    """A text as code. A backtick would end it and a pipe its cell, and nothing can be escaped in there: so what is like them."""
    return f"`{' '.join(text.split()).translate(_LIKE)}`"
