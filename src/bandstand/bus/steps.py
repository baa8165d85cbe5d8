"""Durable steps: `await self.step("charge", lambda: charge(card, amount))` in the handler of a command that is declared `retry_safe`.

`StepRunner` carries out what `next_move` decides: it claims a step in the journal, calls the function, writes the result, and only then returns it. So a chain
of steps takes two pages each; steps that run side by side, and those of different commands, share pages. A step that is itself `retry_safe` is not claimed.

**A claim is released only if the function says that nothing was done**: it raises. What says that no answer came, such as a cancellation, a timeout or a
connection that broke, leaves the step unknown: see `is_outcome_unknown`.

**One run of a step at a time.** A second one waits for the first, and then decides by what that has left. This happens with a key that two commands share, or when a command is
repeated while its first handler, whose deadline has passed, still runs.

**The steps of a command end with its answer**, in the same page, if the answer is a reply or a refusal. After any other end the command may be replayed or sent again, so its
steps stay until its dead letter is gone, and for `step_keep_for` at least.

`StepRunner` belongs to the node; each incarnation of a capability has a `StepCalls`.
"""

from __future__ import annotations

import asyncio
import collections.abc
import re
import typing
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from inspect import isawaitable, isroutine
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, final

import msgspec

from bandstand.bus.contracts.codec import PayloadCodec
from bandstand.bus.contracts.types import UNDECLARED
from bandstand.bus.durable.steps import (
    STEPS,
    Move,
    RecordedStep,
    ReplayStarted,
    StepClaimed,
    StepDone,
    StepKey,
    StepRecord,
    StepReleased,
    StepTable,
    Workflow,
    WorkflowEnded,
    WorkflowKey,
    next_move,
)
from bandstand.bus.durations import to_whole_ms
from bandstand.bus.faults import (
    ACTOR_CRASH,
    ACTOR_FAULT,
    CONFLICT,
    IN_DOUBT,
    TIMEOUT,
    FaultAnswer,
)
from bandstand.bus.request import PendingRequest
from bandstand.bus.wire import DECODE_ERRORS
from bandstand.errors import (
    ContractError,
    InvalidArgumentError,
    InvalidMessageError,
    JournalClosedError,
    LoopBusyError,
    RefusedError,
    RequestFailedError,
    StepResultError,
    StepUnknownError,
)
from bandstand.errors.formatting import describe_exception, safe_repr, safe_str
from bandstand.errors.validation import LONGEST_MS

if TYPE_CHECKING:
    from msgspec import Raw

    from bandstand.bus.bus_client import Bus
    from bandstand.bus.durable.lane import DurableLane
    from bandstand.bus.frame import Frame
    from bandstand.bus.request import Route
    from bandstand.bus.router import Router

__all__ = ("Done", "StepCalls", "StepRunner", "is_outcome_unknown")

T_co = TypeVar("T_co", covariant=True)

_NAME: Final = re.compile(r"[^/\x00-\x1f\x7f]{1,100}")
_MAX_KEY: Final = 200
_UNKNOWN_ERRORS: Final = (TimeoutError, ConnectionError, StepUnknownError)
_MAX_CAUSES: Final = 100
# With so many workflows that have ended, those without a dead letter are looked for.
_SWEEP_FROM: Final = 100
# Answers of other capabilities after which it is not known what they have done.
_UNKNOWN_ANSWERS: Final = frozenset({ACTOR_CRASH, ACTOR_FAULT, IN_DOUBT, TIMEOUT})


def _do_nothing() -> None:
    """Do nothing."""


@final
@dataclass(frozen=True, slots=True)
class Done(Generic[T_co]):
    """What the `check` of a step returns if the step was carried out."""

    result: T_co
    """The result of the step."""


def is_outcome_unknown(error: BaseException) -> bool:
    """Return whether an exception of the function of a step leaves open whether it was carried out.

    It does if no answer came: a cancellation, a timeout, a connection that broke, a request to another capability that was answered with
    `Sys.Timeout`, `Sys.InDoubt`, `Sys.ActorCrash` or `Sys.ActorFault`, or `StepUnknownError`; or if one of these is in a group, or is the `__cause__`:
    libraries have their own classes for timeouts. Any other exception says that nothing was done.
    """
    cause: BaseException | None = error
    # Limited: a chain of causes may be a circle.
    for _ in range(_MAX_CAUSES):
        if isinstance(cause, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", cause)
            return any(map(is_outcome_unknown, group.exceptions))
        if cause is None or isinstance(cause, ConnectionRefusedError):
            return False
        if isinstance(cause, RequestFailedError):
            return cause.type in _UNKNOWN_ANSWERS
        if not isinstance(cause, Exception) or isinstance(cause, _UNKNOWN_ERRORS):
            return True
        cause = cause.__cause__
    return True


@final
class StepRun:
    """The steps that one attempt to handle a command has called."""

    __slots__ = ("content", "has_ended", "names", "pending", "root", "type")

    def __init__(self, pending: PendingRequest, root: str, content: str) -> None:
        self.pending = pending
        self.root = root
        """The id of the command with which the workflow began: another one for a replay."""
        self.type: str = pending.frame.type
        self.content = content
        # The steps that run or have returned.
        self.names: set[StepKey] = set()
        # Whether the command was answered, and its steps are forgotten.
        self.has_ended = False


@final
class StepCall:
    """One call of `step`."""

    __slots__ = ("check", "codec", "function", "is_retry_safe", "key", "run")

    # Any: the types of functions are the user's.
    def __init__(
        self,
        run: StepRun,
        key: StepKey,
        function: Callable[[], Any],
        codec: PayloadCodec,
        check: Callable[[], Any] | None,
        *,
        is_retry_safe: bool,
    ) -> None:
        self.run = run
        self.key = key
        self.function = function
        self.codec = codec
        self.check = check
        self.is_retry_safe = is_retry_safe

    @property
    def where(self) -> str:
        """The step, for error texts."""
        return f"step {self.key.name!r} of {self.run.type} {self.key.workflow.key}"


@final
class StepRunner:
    """Carries out the steps of one node."""

    __slots__ = ("_keep_ms", "_router", "_running", "_runs", "_sweep_at", "table")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._keep_ms = to_whole_ms("step_keep_for", router.config.step_keep_for, most=LONGEST_MS)
        self.table = StepTable()
        """The steps, as the journal has them."""
        # The steps whose state is about to change. Each future is done when the change is durable, or none follows.
        self._running: dict[StepKey, asyncio.Future[None]] = {}
        self._runs: dict[PendingRequest, StepRun] = {}
        self._sweep_at = _SWEEP_FROM

    # -- for capabilities ----------------------------------------------------------------------------------------------

    def run_of(self, pending: PendingRequest) -> StepRun:
        """Return the run of an open command. Its end is noted together with the answer."""
        run = self._runs.get(pending)
        if run is None:
            frame = pending.frame
            run = StepRun(pending, self.table.root_of(frame.metadata.id), _hash_of(frame))
            self._runs[pending] = run
            self._hold(pending, partial(self._end, run), partial(self._leave, run))
        return run

    async def call(self, call: StepCall) -> Any:
        """Return the result of a step: the recorded one, or that of its function.

        Raises:
            StepUnknownError: it was begun before, and whether it was carried out is not known.
            StepResultError: its result cannot be written or read.
            RefusedError: its command has been answered meanwhile.
        """
        run, key = call.run, call.key
        self._check_content(call)
        if key in run.names:
            raise InvalidArgumentError(
                f"{call.where}: this handler has called a step with that name already: give each step a name of its own, "
                f"as in f'{key.name} {{number}}'"
            )
        run.names.add(key)
        try:
            return await self._decide(call)
        except BaseException:  # raised again: after a failure the handler may try again
            run.names.discard(key)
            raise

    async def _decide(self, call: StepCall) -> Any:
        key = call.key
        while (other := self._running.get(key)) is not None:
            await asyncio.wait([other])
        self._check_open(call)
        step = self.table.find(key)
        move = next_move(step, is_retry_safe=call.is_retry_safe, has_check=call.check is not None)
        if step is not None:
            step.codec = call.codec
            if move is Move.RETURN:
                return _read_result(call, step)
            if move is Move.REPORT:
                raise _unknown(call, "it was begun, and its result is not recorded")
        self._running[key] = asyncio.get_running_loop().create_future()
        if move is Move.CHECK:
            found = await self._check(call)
            if found is not None:
                return await self._record(call, found.result)
        elif not call.is_retry_safe:
            await self._claim(call)
        return await self._execute(call)

    async def _claim(self, call: StepCall) -> None:
        """Write that the step may begin, and return when that is durable."""
        run, key = call.run, call.key
        self._expire()
        record = StepClaimed(*key.workflow, key.name, self._now(), run.root, run.type, self._content_of(call))
        try:
            await self._write_durably(record)
            self._check_open(call)
        except BaseException:  # raised again: it has not begun
            self._release(call)
            raise

    async def _execute(self, call: StepCall) -> Any:
        try:
            result = await _called(call.function)
        except BaseException as error:
            if call.is_retry_safe:
                self._stop_running(call.key)
                raise
            if not is_outcome_unknown(error):
                self._release(call)
                raise
            if call.check is None or not isinstance(error, Exception):
                self._stop_running(call.key)
                if isinstance(error, Exception):
                    raise _unknown(call, f"it has raised {describe_exception(error)}") from error
                raise
            found = await self._check(call)
            if found is None:
                self._release(call)
                raise
            result = found.result
        return await self._record(call, result)

    async def _check(self, call: StepCall) -> Done[Any] | None:
        """Ask the user's function what has become of a claimed step: `Done`, or None if it was not carried out."""
        assert call.check is not None
        try:
            found: Done[Any] | None = await _called(call.check)
        except BaseException as error:
            self._stop_running(call.key)
            if not isinstance(error, Exception):
                raise
            raise _unknown(call, f"its check has raised {describe_exception(error)}") from error
        kind: type[object] = type(found)
        if found is not None and kind is not Done:
            # A caller without type checking.
            self._stop_running(call.key)
            raise _unknown(
                call,
                f"its check has returned {safe_repr(found)} instead of Done(result), or None if it was not carried out",
            )
        return found

    async def _record(self, call: StepCall, value: object) -> Any:
        """Write a result, and return it as it will be read when that is durable."""
        run, key = call.run, call.key
        try:
            result = call.codec.write(value)
        except Exception as error:
            # Whatever the class of the result raises.
            self._stop_running(key)
            if call.is_retry_safe:
                text = f"{call.where}: its result cannot be recorded: {safe_str(error)}"
            else:
                text = f"{call.where} was carried out, and its result cannot be recorded: {safe_str(error)}. {_settle_hint(call)}"
            raise StepResultError.of(key.id, FaultAnswer(ACTOR_FAULT, text)) from error
        entry = run.pending.entry
        is_forgotten = run.has_ended or (self.table.find(key) is None and not self._lane.is_open(run.pending))
        if entry is None or (is_forgotten and key.workflow.scope == "command"):
            # The command was answered without waiting for it.
            self._stop_running(key)
        else:
            self._expire()
            record = StepDone(
                *key.workflow,
                key.name,
                self._now(),
                run.root,
                run.type,
                result,
                self._content_of(call),
                # A command that has ended makes no progress.
                0 if run.has_ended else entry.number,
                entry.begun,
            )
            await self._write_durably(record, partial(self._stop_running, key))
        return call.codec.read(result)

    # -- replays and the end of commands -------------------------------------------------------------------------------

    def note_replay(self, first: Frame, again: Frame, route: Route | None) -> None:
        """Let a command that is about to be sent continue the workflow of another one."""
        if first.kind == "command" and route is not None and route.is_retry_safe:
            root = self.table.root_of(first.metadata.id)
            self._write(ReplayStarted(again.metadata.id, root, self._now()))

    def forget_command(self, command: str, parent: PendingRequest | None = None) -> None:
        """Forget the steps of a command: its dead letter was replayed successfully, or its answer was settled.

        Args:
            command: the id of the command.
            parent: the command that has settled or replayed it: the steps are forgotten in the page of its answer. None if they are forgotten now.
        """
        root = self.table.root_of(command)
        if WorkflowKey("command", root) in self.table.workflows and not self._is_continued(root):
            self._lane.hold_write(parent, partial(self._end_workflow, root))

    def _end_workflow(self, root: str) -> None:
        # When the answer, which is in the same page, has been sent: if its client has gone, it becomes a dead letter, which can be replayed.
        loop = asyncio.get_running_loop()
        self._write(WorkflowEnded("command", root), lambda: loop.call_soon(self._forget, root))

    def _forget(self, root: str) -> None:
        """Forget workflows that have ended and have no dead letter."""
        table, letters = self.table, self._router.dead_letters
        if letters.find(root) is None:
            table.forget(root)
        if len(table.ended) >= self._sweep_at:
            # Dead letters were removed; or these are from the journal.
            for name in [name for name in table.ended if letters.find(name) is None]:
                table.forget(name)
            self._sweep_at = 2 * len(table.ended) + _SWEEP_FROM

    def _end(self, run: StepRun) -> None:
        """Forget the steps of a command, in the page with its answer; unless a dead letter can be replayed that needs them."""
        self._leave(run)
        is_replay = run.root != run.pending.frame.metadata.id
        is_needed = self._router.dead_letters.find(run.root) is not None
        if not is_replay and not is_needed and not self._is_continued(run.root, run.root):
            run.has_ended = True
            self._end_workflow(run.root)

    def _is_continued(self, root: str, but: str = "") -> bool:
        """Return whether a command continues a workflow, another one than `but`."""
        workflow = self.table.workflows.get(WorkflowKey("command", root))
        if workflow is None or not workflow.replays:
            return False
        commands = {root, *workflow.replays} - {but}
        return any(pending.frame.metadata.id in commands for pending in self._router.open_requests())

    def _leave(self, run: StepRun) -> None:
        self._runs.pop(run.pending, None)

    # -- for people ----------------------------------------------------------------------------------------------------

    def is_running(self, key: StepKey) -> bool:
        """Return whether the function of a step runs, or its record is on its way to the disk."""
        return key in self._running

    def is_open(self, workflow: Workflow) -> bool:
        """Return whether a command or a dead letter needs the steps of a workflow."""
        if workflow.key.scope == "key":
            return any(step.key in self._running for step in workflow.steps.values())
        lane, router = self._lane, self._router
        commands = {workflow.key.key, *workflow.replays}
        return any(
            router.dead_letters.find(name) is not None or lane.find_doubt(name) is not None
            for name in commands
        ) or any(pending.frame.metadata.id in commands for pending in router.open_requests())

    def settle(self, pending: PendingRequest, step: RecordedStep, result: Raw | None) -> None:
        """Write what has become of a step, in the page with the answer to a command; with None it was not carried out."""
        key = step.key
        record = (
            StepReleased(*key.workflow, key.name, self._now())
            if result is None
            else StepDone(*key.workflow, key.name, self._now(), step.command, step.type, result)
        )
        self._running[key] = asyncio.get_running_loop().create_future()
        end = partial(self._stop_running, key)
        self._hold(pending, partial(self._write, record, end), end)

    def forget(self, pending: PendingRequest, workflow: Workflow) -> None:
        """Forget the steps of a workflow, in the page with the answer to a command."""
        self._hold(pending, partial(self._write, WorkflowEnded(*workflow.key)), _do_nothing)

    # -- the journal ---------------------------------------------------------------------------------------------------

    @property
    def _lane(self) -> DurableLane:
        lane = self._router.durable
        assert lane is not None
        return lane

    def _now(self) -> int:
        return self._router.ids.now_ms()

    def _hold(self, pending: PendingRequest, write: Callable[[], object], drop: Callable[[], object]) -> None:
        # Not at the top: the lane is compiled with modules that import this one.
        from bandstand.bus.durable.lane import HeldWrite

        self._lane.hold(pending, HeldWrite(write, drop))

    def _write(self, record: StepRecord, effect: Callable[[], object] | None = None) -> None:
        self._lane.write_data(STEPS, record, effect)

    async def _write_durably(self, record: StepRecord, effect: Callable[[], object] = _do_nothing) -> None:
        """Write a record, and return when it is durable. If the task is cancelled, the record is written all the same."""
        durable = asyncio.get_running_loop().create_future()

        def on_durable() -> None:
            effect()
            if not durable.done():
                durable.set_result(None)

        self._write(record, on_durable)
        await durable

    def _release(self, call: StepCall) -> None:
        """Write that a claimed step was not carried out. The next one with its key waits until that is durable."""
        key = call.key
        if call.run.has_ended and key.workflow.scope == "command":
            self._stop_running(key)
        else:
            record = StepReleased(*key.workflow, key.name, self._now())
            self._write(record, partial(self._stop_running, key))

    def _stop_running(self, key: StepKey) -> None:
        future = self._running.pop(key, None)
        if future is not None and not future.done():
            future.set_result(None)

    def _expire(self) -> None:
        self.table.expire(self._now(), self._keep_ms, self.is_open)

    # -- checks --------------------------------------------------------------------------------------------------------

    def _content_of(self, call: StepCall) -> str:
        return call.run.content if call.key.workflow.scope == "command" else ""

    def _check_content(self, call: StepCall) -> None:
        """Refuse a command whose id was used by another one that has recorded steps.

        Raises:
            RefusedError: it was.
        """
        workflow = self.table.workflows.get(call.key.workflow)
        content = self._content_of(call)
        if workflow is not None and workflow.content and content and workflow.content != content:
            text = (
                f"the id {call.run.root} was used for another {call.run.type}, with other content, whose steps are recorded; nothing was done: send "
                f"this one with a new id"
            )
            raise RefusedError(FaultAnswer(CONFLICT, text))

    def _check_open(self, call: StepCall) -> None:
        """Stop a handler whose command has been answered.

        Raises:
            RefusedError: it has.
        """
        if not self._lane.is_open(call.run.pending):
            text = (
                f"{call.where} was not begun: the command has been answered, perhaps because its deadline has passed. When it is sent again "
                f"or replayed, it continues with the recorded results"
            )
            raise RefusedError(FaultAnswer(TIMEOUT, text))


@final
class StepCalls:
    """The steps of one incarnation of a capability."""

    __slots__ = ("_bus", "_router")

    def __init__(self, router: Router, bus: Bus) -> None:
        self._router = router
        self._bus = bus

    async def call(
        self,
        name: str,
        function: Callable[[], Any],
        returns: Any,
        key: str | None,
        check: Callable[[], Any] | None,
        *,
        is_retry_safe: bool,
    ) -> Any:
        """Call a step: see `Capability.step`."""
        where = f"step {safe_repr(name)}"
        _check_arguments(where, name, function, key, check, is_retry_safe)
        runner, pending = self._place(where)
        codec = _result_codec(where, function, returns)
        run = runner.run_of(pending)
        workflow = WorkflowKey("command", run.root) if key is None else WorkflowKey("key", key)
        step = StepKey(workflow, name)
        return await runner.call(StepCall(run, step, function, codec, check, is_retry_safe=is_retry_safe))

    def _place(self, where: str) -> tuple[StepRunner, PendingRequest]:
        """Return where the step runs, and the command that it belongs to.

        Raises:
            LoopBusyError, JournalClosedError, ContractError, RefusedError: there can be no step here.
        """
        router, pending = self._router, self._bus.current_message
        if router.upstream is not None:
            raise JournalClosedError(
                f"{where}: the capability runs in a process of its own, which has no journal: run it on the node, and let it send commands to the one in "
                f"the other process"
            )
        runner, lane = router.steps, router.durable
        if runner is None or lane is None:
            raise JournalClosedError(
                f"{where}: the node has no journal, so no result can be recorded: pass journal=... to Node, or --journal DIR to bandstand serve"
            )
        if not isinstance(pending, PendingRequest) or pending.frame.kind != "command":
            raise LoopBusyError(
                f"{where} was called outside of the handler of a command: only a command is carried out again after a crash, and can continue"
            )
        route = pending.route
        assert route is not None
        if not route.is_retry_safe:
            raise ContractError(
                f"{where}: {route.type} is not declared retry_safe, so it would not be carried out again after a crash: put what must not happen twice "
                f"into steps, and declare the command with retry_safe=True"
            )
        if not lane.is_open(pending):
            text = f"{where} was not begun: {route.type} {pending.frame.metadata.id} has been answered, perhaps because its deadline has passed"
            raise RefusedError(FaultAnswer(TIMEOUT, text))
        return runner, pending


def _check_arguments(
    where: str, name: object, function: object, key: object, check: object, is_retry_safe: object
) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not _is_unicode(name):
        raise InvalidArgumentError(
            f"{where}: its name is {safe_repr(name)}: pass up to 100 characters without a slash"
        )
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= _MAX_KEY and _is_unicode(key)):
        raise InvalidArgumentError(
            f"{where}: key is {safe_repr(key)}: pass a string of 1 to {_MAX_KEY} characters, or None for the id of the command"
        )
    for option, given in (("the function", function), ("check", check)):
        if not callable(given) and (given is not None or option != "check"):
            raise InvalidArgumentError(
                f"{where}: {option} is {safe_repr(given)}: pass a function without arguments, as in lambda: charge(card)"
            )
    if not isinstance(is_retry_safe, bool):
        raise InvalidArgumentError(f"{where}: retry_safe is {safe_repr(is_retry_safe)}: pass True or False")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Any: types and results are the user's.
async def _called(function: Callable[[], Any]) -> Any:
    result: object = function()
    return await cast("Awaitable[object]", result) if isawaitable(result) else result


def _result_codec(where: str, function: Callable[[], Any], returns: Any) -> PayloadCodec:
    annotation = _annotation_of(where, function) if returns is UNDECLARED else returns
    try:
        return _cached_codec(annotation)
    except TypeError as error:
        if isinstance(error, ContractError):
            raise InvalidArgumentError(f"{where}: {safe_str(error)}") from None
        # It cannot be hashed.
        return PayloadCodec(annotation, "the result of the step")


@lru_cache(maxsize=1000)
def _cached_codec(annotation: Any) -> PayloadCodec:
    return PayloadCodec(annotation, "the result of the step")


def _annotation_of(where: str, function: Any) -> Any:
    """Return the type that a function, or the coroutine that it returns, has for its result."""
    while isinstance(function, partial):
        function = cast("partial[object]", function).func
    if not isroutine(function):
        function = type(function).__call__
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise InvalidArgumentError(
            f"{where}: the return annotation of its function cannot be resolved: {safe_str(error)}. Pass its type: returns=..."
        ) from error
    if "return" not in hints:
        raise InvalidArgumentError(
            f"{where}: its function has no return annotation, as every lambda: pass its type, as in returns=Receipt, or returns=None"
        )
    annotation = hints["return"]
    if typing.get_origin(annotation) in {
        collections.abc.Awaitable,
        collections.abc.Coroutine,
        asyncio.Future,
    }:
        annotation = typing.get_args(annotation)[-1]
    return annotation


def _read_result(call: StepCall, step: RecordedStep) -> Any:
    assert step.result is not None
    try:
        return call.codec.read(step.result)
    except InvalidMessageError as error:
        step.is_unreadable = True
        text = (
            f"{call.where} is done, and its recorded result cannot be read: {safe_str(error)}, at {error.path.replace('$.data', '$', 1)}. Let the type of "
            f"the step accept it, or correct it with Step.Settle id={call.key.id}"
        )
        raise StepResultError.of(call.key.id, FaultAnswer(ACTOR_FAULT, text)) from None


def _unknown(call: StepCall, why: str) -> StepUnknownError:
    text = f"{call.where} may have been carried out or not: {why}. {_settle_hint(call)}"
    return StepUnknownError.of(call.key.id, FaultAnswer(IN_DOUBT, text))


def _settle_hint(call: StepCall) -> str:
    return f"Find out, settle it with Step.Settle id={call.key.id}, and replay the command with Dead.Replay"


def _hash_of(frame: Frame) -> str:
    """Return a hash of the type and the data of a command, however the data is written."""
    data = bytes(frame.data)
    try:
        data = msgspec.json.encode(msgspec.json.decode(data), order="sorted")
    except (*DECODE_ERRORS, TypeError):
        pass
    return blake2b(frame.type.encode() + b"\n" + data, digest_size=8).hexdigest()
