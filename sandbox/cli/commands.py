"""What `make up`, `preview`, `status`, `verify`, `scale`, `disturb`, `openstack`, `shell`, `down` and `clean` do, step by step.

Each command can be interrupted at any point and run again: every step looks at what is there first. One command at a time
works on a sandbox; a second one is told so.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import shutil
import time
from typing import TYPE_CHECKING, Final, NoReturn

from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError
from sandbox.cli.look import Look, collect, look, waits_for
from sandbox.cli.reality import reality
from sandbox.cli.shell import enter
from sandbox.cluster import control_plane as clusters
from sandbox.cluster.node_tools import find_dra_driver, find_platform_tools, recorded
from sandbox.openstack import environment, service
from sandbox.stack import checkpoint, observed, offline_charts, plugin_choice, real_nodes, recovery, stand_ins
from sandbox.stack.engine import Engine
from sandbox.stack.prerequisites import boot_existing_cluster, give_aks_cluster, give_magnum_cluster, offer_sizes, seed_openstack
from sandbox.stack.state import Sandbox, all_sandboxes, find_sandbox, prepare, root
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import explained, make_folder, read_json
from sandbox.toolchain.find import download_plugins, find_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gpu_pools.evidence.verdicts import Evidence
    from gpu_pools.plan.planned import Plan
    from sandbox.cluster.machine_groups import RealNodes
    from sandbox.openstack.disturbances import Disturbances
    from sandbox.system.progress import Progress
    from sandbox.toolchain.tools import Tools

#: How long nodes get to show what was declared after the engine is done.
SETTLE_SECONDS: Final = 180.0
_POLL_SECONDS: Final = 0.25
#: How long everything must hold: the operator needs about a second to act on what has changed.
_CALM_SECONDS: Final = 1.5
#: Between two words about what the engine waits for.
_TELL_SECONDS: Final = 10.0
#: Says in the sandbox's folder who works on it.
_HELD: Final = ".held"
_LOCK_TRIES: Final = 5
_ENGINE_ONLY: Final = {"pulumi", "helm"}
_QUIETLY: Final = ("--yes", "--skip-preview", "--suppress-permalink=true")


class EngineFailedError(SandboxError):
    """The engine ended with an error, which it has printed itself."""


def up(stack: str, progress: Progress, nodes: str | None = None, *, observe: bool = False) -> Look:
    """Bring a stack up and wait until everything is as declared and rolled out, or the time is over; returns the last look.

    Args:
        stack: its name.
        progress: what prints the progress.
        nodes: which nodes it has, of those that real_nodes names; None: as it is.
        observe: whether a Prometheus and live dashboards run beside it from now on; else as it is.

    Raises:
        InvalidStackError: if the stack file is wrong; nothing was started.
        SandboxError: if a program is missing or fails.
    """
    sandbox = find_sandbox(stack)
    observe = observe or sandbox.observed.exists()
    plan = plan_of(sandbox, observe=observe)
    download_plugins(plugin_choice.to_download(sandbox, plan), progress)
    tools = find_platform_tools(progress)
    if plan.dra:
        find_dra_driver(progress)
    observers = observed.programs(progress) if observe else {}
    with _held(sandbox, "up"):
        real = real_nodes.choose(sandbox, plan, nodes)
        if observe:
            observed.choose(sandbox, plan, real_nodes=any(one.count for one in real.values()))
        ran_before = _process_ids(sandbox)
        engine = _engine(sandbox, plan, tools, progress, needs_cluster=True, real=real)
        plugin_choice.remember(sandbox, engine.tools)
        engine = _recovered(engine, progress)
        if observe:
            observed.start(sandbox, observers, progress)
        progress.note(f"pulumi up --stack {stack}")
        started, begun = _process_ids(sandbox) != ran_before, time.time()
        quiet_since = time.monotonic()
        if not _has_succeeded(engine, "up", *_QUIETLY, watch=_watch(sandbox, plan, progress)):
            message = f"pulumi up of {stack} failed; its messages stand above."
            raise EngineFailedError(message, "Correct the cause and run `make up` again; what exists is kept.")
        is_unchanged = not started and engine.has_changed_nothing(begun)
        seen = settle(sandbox, plan, progress, quiet_since=quiet_since if is_unchanged else None)
        if observe and seen.holds:
            observed.await_values(sandbox, sum(len(pool.nodes) for pool in seen.pools), progress)
        return seen


def links(stack: str) -> str:
    """Where the live dashboards of a stack are; empty where it is not observed."""
    return observed.links(find_sandbox(stack))


def preview(stack: str, progress: Progress, save: Path | None = None, policies: Path | None = None) -> None:
    """Show what `up` would do, without a cloud and without starting a cluster of our own making.

    Args:
        stack: its name.
        progress: what prints the progress.
        save: a file for the engine's events, which are then not shown; what policies find is among them and no failure here.
        policies: the configuration of the policy pack; where `save` is given.

    Raises:
        InvalidStackError: if the stack file is wrong.
        SandboxError: if a program is missing or the engine refuses.
    """
    sandbox = find_sandbox(stack)
    plan = plan_of(sandbox)
    with _for_looking(sandbox, plan, progress, "preview") as engine:
        if save is not None:
            with progress.step(f"pulumi preview --stack {stack}"):
                engine.save_preview(save, policies)
            _see_that_everything_lives(sandbox)
        elif not _has_succeeded(engine, "preview", "--diff", "--suppress-permalink=true"):
            message = f"pulumi preview of {stack} failed; its messages stand above."
            raise EngineFailedError(message, "Correct the cause; nothing was changed.")
        progress.note(_what_keeps_running(sandbox))


def status(stack: str, progress: Progress) -> Look:
    """What is there right now.

    Raises:
        SandboxError: if the sandbox is not up.
    """
    sandbox = _find_running(stack)
    _tell_who_works(sandbox, progress)
    return look(sandbox, plan_of(sandbox))


def verify(stack: str, progress: Progress) -> Evidence:
    """What the verifiers of a stack have reported, as `python -m gpu_pools evidence` tells it of a real cluster.

    Raises:
        EvidenceError: if the stack's outputs do not say where reports are.
        SandboxError: if the sandbox is not up.
    """
    sandbox = _find_running(stack)
    _tell_who_works(sandbox, progress)
    return collect(sandbox)


def rules_because(stack: str) -> str:
    """Why rules stand in for NVIDIA's programs on the nodes of a stack; empty where the programs run, or nothing does."""
    found = (recorded(folder) for folder in find_sandbox(stack).cluster_folders())
    return next((reason for reason in found if isinstance(reason, str)), "")


def reality_of(stack: str) -> str:
    """What of a stack that is up is real, in a line."""
    sandbox = find_sandbox(stack)
    return reality(sandbox, plan_of(sandbox).platform)


def scale(stack: str, pool: str, count: int, progress: Progress) -> None:
    """Play the autoscaler: change the number of a pool's nodes from outside, as a cloud does.

    Raises:
        SandboxError: if the sandbox is not up, there is no such pool, or the cloud refuses the count.
    """
    sandbox = _find_running(stack)
    recovery.scale_in_cloud(sandbox, plan_of(sandbox), pool, count)
    progress.note(f"pool {pool} is to have {count} nodes; make status STACK={stack} shows them come or go")


def disturb(stack: str, wanted: Disturbances, progress: Progress) -> None:
    """Have operations of a stack's Magnum be slow, fail or be lost from now on, as it happens in clouds.

    Raises:
        SandboxError: if the stack has no Magnum yet, or with everything that cannot go wrong so.
    """
    sandbox = _find_openstack(stack)
    plan = plan_of(sandbox)
    pools = [pool_plan.name for pool_plan in plan.pools]
    things = [str(getattr(plan.settings.cluster, "name", "")), *pools]
    wrong: list[str] = []
    for what, names, known in (("fail", wanted.fail, things), ("be lost", wanted.lose, pools)):
        if unknown := [name for name in names if name not in known]:
            wrong += f"{stack} has no {', '.join(unknown)} that could {what}.", f"Choose of {', '.join(known)}."
    if not 0 <= wanted.seconds < math.inf:
        wrong += f"Nothing can take {wanted.seconds:g} seconds.", "Write 0 or more."
    if wrong:
        *others, last = wrong
        raise SandboxError("\n".join(others), last)
    service.disturb(sandbox.openstack, wanted)
    progress.note(f"until the next `make disturb`: {wanted.text}")


def openstack(stack: str, arguments: Sequence[str], progress: Progress) -> int:
    """Run the real `openstack` client as the user of a stack's OpenStack; returns its exit status.

    Raises:
        SandboxError: if the stack is not on Magnum or not up.
    """
    sandbox = _find_openstack(stack)
    _see_that_clusters_live(sandbox)
    return service.run_client(sandbox.openstack, arguments, progress)


def shell(stack: str, command: Sequence[str], progress: Progress) -> NoReturn:
    """Become the user's shell, or one command, in the engine's environment; a cluster of our own making is not started for it.

    While another command works on the sandbox, with what it has started so far.

    Raises:
        InvalidStackError: if the stack file is wrong.
        SandboxError: if a program is missing.
    """
    sandbox = find_sandbox(stack)
    if who := _at_work(sandbox):
        progress.note(f"{who} works on {stack} right now: this is a look into the middle of it")
        tools = plugin_choice.kept(sandbox, find_tools(progress, only=_ENGINE_ONLY), progress)
        enter(Engine(sandbox, tools, stand_ins.attached(sandbox)), command)
    else:
        with _for_looking(sandbox, plan_of(sandbox), progress, "shell") as engine:
            if not command:
                progress.note(_what_keeps_running(sandbox))
            enter(engine, command)  # its first act is to close what holds the sandbox


def down(stack: str, progress: Progress) -> None:
    """Destroy a stack, check that nothing of it is left, and stop everything that was started for it.

    Raises:
        SandboxError: if something cannot be destroyed or is left.
    """
    sandbox = find_sandbox(stack)
    if not sandbox.folder.exists():
        progress.note(f"{stack} is not up; nothing to do")
        return
    plan = _plan_for_destroy(sandbox)
    tools = find_platform_tools(progress)
    with _held(sandbox, "down"):
        engine = _engine(sandbox, plan, tools, progress, needs_cluster=True, keep_stack_file=True)
        engine = recovery.with_program_if_moved(_recovered(engine, progress))
        if recovery.unprotect(engine):
            progress.note("protected resources: the protection is taken off, in the sandbox only")
        if sandbox.observed.exists():
            observed.leave(sandbox)
        progress.note(f"pulumi destroy --stack {stack}")
        if not _has_succeeded(engine, "destroy", *_QUIETLY):
            message = f"pulumi destroy of {stack} failed; its messages stand above."
            raise EngineFailedError(message, "Run `make down` again; `make clean` throws everything away.")
        recovery.check_nothing_left(engine)
        with progress.step("Stopping what was started"):
            _stop_everything(sandbox)
    _remove(sandbox.folder)


def clean(progress: Progress) -> None:
    """Stop every sandbox and remove its state, destroyed or not."""
    for sandbox in all_sandboxes():
        _throw_away(sandbox, progress)


def throw_away(stack: str, progress: Progress) -> None:
    """The same with the sandbox of one stack."""
    _throw_away(find_sandbox(stack), progress)


def _throw_away(sandbox: Sandbox, progress: Progress) -> None:
    with progress.step(f"Removing the sandbox of {sandbox.stack}"):
        _stop_everything(sandbox)
        # The engine of a command that was killed. Without its stand-ins it ends soon.
        recovery.end_engines(sandbox, progress)
        _remove(sandbox.folder)


def plan_of(sandbox: Sandbox, *, observe: bool = False) -> Plan:
    """The plan of the stack file as it is now; of one that is observed, or is to be, with that.

    Raises:
        InvalidStackError: if it cannot be planned.
    """
    config = read_stack_file(sandbox.stack_file)
    return plan_config(observed.with_section(config) if observe or sandbox.observed.exists() else config)


def settle(
    sandbox: Sandbox, plan: Plan, progress: Progress, timeout: float | None = None, *, quiet_since: float | None = None
) -> Look:
    """Look until everything holds and goes on holding, or the time is over; returns the last look.

    Args:
        sandbox: of the stack.
        plan: of the stack.
        progress: what prints the progress.
        timeout: seconds; None for the usual time.
        quiet_since: since when nobody has changed or started anything, by the monotonic clock: what the first look finds has
            held since then. None where something was changed.
    """
    verification = plan.settings.verification
    longest = min(SETTLE_SECONDS, verification.deadline_seconds) if verification.enabled else SETTLE_SECONDS
    deadline = time.monotonic() + (longest if timeout is None else timeout)
    held_since: float | None = None
    seen = Look(())
    with progress.step("Waiting until everything is as declared", lambda: waits_for(seen, ())):
        while True:
            _see_that_clusters_live(sandbox)
            # A node shows the old state until its pods are replaced, and a right one shortly between two replacements.
            seen = look(sandbox, plan)
            now = time.monotonic()
            held_since = (held_since or quiet_since or now) if seen.holds else None
            quiet_since = None
            if now > deadline or (held_since and now - held_since >= _CALM_SECONDS):
                return seen
            time.sleep(_POLL_SECONDS)


def _has_succeeded(engine: Engine, *arguments: str, watch: Callable[[], None] | None = None) -> bool:
    """Run one command of the engine; it is no success where a stand-in died meanwhile.

    Args:
        engine: which is run.
        arguments: of the engine.
        watch: called every other second; None where only what has died is to end it.

    Raises:
        SandboxError: a cluster, a part of OpenStack or a stand-in has died.
    """
    sandbox = engine.sandbox
    status = engine.run(*arguments, watch=watch or (lambda: _see_that_everything_lives(sandbox)))
    # It may have died in the engine's last seconds, and somebody else may have answered in its place.
    _see_that_everything_lives(sandbox)
    return status == 0


def _watch(sandbox: Sandbox, plan: Plan, progress: Progress) -> Callable[[], None]:
    """What is done every other second while the engine works: it ends where something has died, and what it waits for is told."""
    begun = noted = time.monotonic()

    def watch() -> None:
        nonlocal noted
        _see_that_everything_lives(sandbox)
        if time.monotonic() - noted < _TELL_SECONDS:
            return
        noted = time.monotonic()
        if lines := [*waits_for(look(sandbox, plan), checkpoint.pending(sandbox))]:
            progress.note("\n    ".join([f"{noted - begun:.0f} s; waited for:", *lines]))

    return watch


def _process_ids(sandbox: Sandbox) -> set[int]:
    """The processes that run for a sandbox."""
    folders = [sandbox.folder, sandbox.openstack, *sandbox.cluster_folders()]
    return {process.pid for folder in folders for process in processes.running(folder).values()}


def _tell_who_works(sandbox: Sandbox, progress: Progress) -> None:
    if who := _at_work(sandbox):
        progress.note(f"{who} works on {sandbox.stack} right now: what follows is in the middle of it")


def _find_openstack(stack: str) -> Sandbox:
    sandbox = find_sandbox(stack)
    if not service.exists(sandbox.openstack):
        message = f"There is no OpenStack of {stack} here."
        raise SandboxError(message, "Start one of a stack on Magnum: make preview STACK=magnum-dev, or make up.")
    return sandbox


def _find_running(stack: str) -> Sandbox:
    sandbox = find_sandbox(stack)
    if not bool(sandbox.cluster_folders()):
        message = f"{stack} is not up."
        raise SandboxError(message, f"Start it: make up STACK={stack}.")
    _see_that_clusters_live(sandbox)
    return sandbox


def _engine(
    sandbox: Sandbox,
    plan: Plan,
    tools: Tools,
    progress: Progress,
    *,
    needs_cluster: bool,
    keep_stack_file: bool = False,
    real: Mapping[str, RealNodes] | None = None,
) -> Engine:
    tools = plugin_choice.kept(sandbox, tools, progress)
    if not (keep_stack_file and sandbox.config_file.exists()):
        prepare(sandbox)
        if tools.kubernetes_plugin:
            offline_charts.use(sandbox, plan, progress)
    recovery.end_engines(sandbox, progress)
    seed_openstack(sandbox, plan)
    offer_sizes(sandbox, plan)
    login = _start_openstack(sandbox, plan, progress)
    if needs_cluster:
        chosen = real_nodes.choose(sandbox, plan, None) if real is None else real
        tools = real_nodes.tools_beside(tools, chosen, progress)
        with progress.step("Starting the clusters of the sandbox"):
            give_aks_cluster(sandbox, plan)
            give_magnum_cluster(sandbox, plan, stand_ins.magnum(sandbox))
            boot_existing_cluster(sandbox, plan, tools, chosen)
            for folder in sandbox.cluster_folders():
                # By the record alone: whoever was killed while making a cluster may have left no more than that.
                clusters.boot(folder, read_json(folder / "cluster.json")["name"], tools)
        real_nodes.start(sandbox, progress)
    with progress.step("Attaching the stand-ins of the clouds"):
        attached = stand_ins.start(sandbox, tools, login)
    engine = Engine(sandbox, tools, attached)
    if not engine.alone:
        progress.note(
            "a real plugin may need the internet: Pulumi's own ports are open to all users of this machine while it works"
        )
    return engine


@contextlib.contextmanager
def _for_looking(sandbox: Sandbox, plan: Plan, progress: Progress, command: str) -> Iterator[Engine]:
    """Hold the sandbox with an engine that can be asked for a preview."""
    # A stack for an existing cluster looks at that cluster in a preview; the others only at what the engine recorded.
    there = plan.platform == "existing" or bool(getattr(plan.settings.cluster, "existing", None))
    needs_cluster = there or bool(sandbox.cluster_folders())
    download_plugins(plugin_choice.to_download(sandbox, plan), progress)
    tools = find_platform_tools(progress) if needs_cluster else find_tools(progress, only=_ENGINE_ONLY)
    with _held(sandbox, command):
        engine = _engine(sandbox, plan, tools, progress, needs_cluster=needs_cluster)
        recovery.take_over(engine)
        yield engine


def _recovered(engine: Engine, progress: Progress) -> Engine:
    """Make the state this run's own and mend what the last one left; what a real cloud's user would do himself is told."""
    with progress.step("Looking at the state of the last run"):
        interrupted = checkpoint.pending(engine.sandbox)
        unlocked = recovery.take_over(engine)
        engine = recovery.recover(engine)
    if unlocked:
        progress.note("the lock of a run that was killed has been taken away; elsewhere: pulumi cancel")
    if interrupted:
        progress.note(
            f"the last run was interrupted while {', '.join(interrupted)}: what it left has been taken away or taken over. "
            "Elsewhere that is yours to do: look what became of it, then pulumi refresh"
        )
    return engine


def _start_openstack(sandbox: Sandbox, plan: Plan, progress: Progress) -> dict[str, str]:
    if plan.platform != "magnum":
        return {}
    environment.find(progress)
    with progress.step("Starting Keystone and Magnum"):
        return stand_ins.start_openstack(sandbox, plan, progress)


def _plan_for_destroy(sandbox: Sandbox) -> Plan:
    """What is to be destroyed was made by the engine's copy; the user's file may be broken by now."""
    source = sandbox.config_file if sandbox.config_file.exists() else sandbox.stack_file
    try:
        return plan_config(read_stack_file(source))
    except InvalidStackError:
        return plan_of(sandbox)


def _see_that_clusters_live(sandbox: Sandbox) -> None:
    """Say what has died instead of waiting for it: nothing of a cluster, or in OpenStack, would ever be ready again."""
    for folder in sandbox.cluster_folders():
        dead = clusters.died(folder)
        if dead:
            _refuse_dead(sandbox, folder, dead)
    dead = service.died(sandbox.openstack)
    if dead:
        _refuse_dead(sandbox, sandbox.openstack, dead)


def _see_that_everything_lives(sandbox: Sandbox) -> None:
    """The same of what the engine needs, stand-ins of providers included: it would wait minutes for one that has died."""
    _see_that_clusters_live(sandbox)
    dead = stand_ins.died(sandbox)
    if dead:
        _refuse_dead(sandbox, sandbox.folder, dead)


def _refuse_dead(sandbox: Sandbox, folder: Path, dead: list[str]) -> NoReturn:
    message = f"{folder}: not running any more: {', '.join(dead)}."
    if full := processes.full_disk(folder, dead):
        raise SandboxError(f"{message}\n{full}", f"Free space there, then: make up STACK={sandbox.stack}.")
    raise SandboxError(message, f"Start it again: make up STACK={sandbox.stack}. Its logs are in {folder / 'logs'}.")


def _what_keeps_running(sandbox: Sandbox) -> str:
    """Say what a preview has left running, and how it is stopped."""
    folders = [sandbox.folder, sandbox.openstack, *sandbox.cluster_folders()]
    names = [name for folder in folders for name in processes.running(folder)]
    return f"still running for the next command: {', '.join(names)}; `make down STACK={sandbox.stack}` stops them"


def _stop_everything(sandbox: Sandbox) -> None:
    stand_ins.stop(sandbox)
    # Before the clusters: Magnum would make again what it is in the middle of making.
    service.stop(sandbox.openstack)
    if sandbox.clusters.is_dir():
        for folder in sorted(sandbox.clusters.iterdir()):
            clusters.erase(folder)
    processes.stop(sandbox.folder)


def _remove(folder: Path) -> None:
    """Remove a sandbox; whoever is killed meanwhile leaves none that looks whole, as a state without its passphrase."""
    with explained(folder, "remove"):
        rest = folder.with_name(f".{folder.name}.removed")
        shutil.rmtree(rest, ignore_errors=True)
        folder.rename(rest)
        shutil.rmtree(rest)
    with contextlib.suppress(OSError):
        root().rmdir()


@contextlib.contextmanager
def _held(sandbox: Sandbox, command: str) -> Iterator[None]:
    """Hold the sandbox for one command; the kernel lets go when the command ends, however it ends."""
    make_folder(sandbox.folder)
    path = sandbox.folder / _HELD
    with explained(path, "write"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _lock(descriptor, fcntl.LOCK_EX):
            message = f"Another command is working on the sandbox of {sandbox.stack}: {_holder(descriptor)}."
            raise SandboxError(message, "Wait for it to end, or interrupt it.")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"`make {command}` (process {os.getpid()})".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _at_work(sandbox: Sandbox) -> str:
    """Which command holds the sandbox, in words; empty where none does."""
    try:
        descriptor = os.open(sandbox.folder / _HELD, os.O_RDONLY)
    except FileNotFoundError:
        return ""
    try:
        return "" if _lock(descriptor, fcntl.LOCK_SH) else _holder(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    """Say whether a lock could be had; who only looks whether it is held has it for a moment, and is waited for."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return True
    return False


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 100, 0).decode(errors="replace") or "one that has just begun"
