"""The steps of workflows as the journal has them: their records, the state that follows from these, and what to do with a step.

**The problem.** A command that is declared `retry_safe` is carried out again when the node has died. What it has done outside, such as charging a card, must
not happen a second time; and what had been begun when the node died may have happened or not.

**The choice.** Each effect is a step with a name. A step is claimed in the journal before its function is called, and its result is written when the function
has returned. So after a crash a step has a result, or was not begun, or is unknown: claimed, without a result. `next_move` decides by that, and by
nothing else.

A workflow is all steps with one key. The key is the id of a command, or one that the handler has given; these are two scopes, because clients choose the
ids of their commands. A command that is replayed from its dead letter has a new id, and continues the workflow of the first: `ReplayStarted` says so.

The records are `DATA` records of the journal, of the owner `STEPS`:

    StepClaimed     a step may begin
    StepDone        it has a result
    StepReleased    it was not carried out, and may begin again
    WorkflowEnded   the steps with a key are not needed any more
    ReplayStarted   a command continues the workflow of another one
    StepProgress        only in checkpoints: in which attempt a command has recorded its last step

Everything here is pure: records in, state out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, final

import msgspec
from msgspec import Raw, Struct

from bandstand.bus.wire import DECODE_ERRORS
from bandstand.errors import JournalCorruptError

if TYPE_CHECKING:
    from bandstand.bus.contracts.codec import PayloadCodec

__all__ = (
    "STEPS",
    "Move",
    "RecordedStep",
    "ReplayStarted",
    "Scope",
    "StepClaimed",
    "StepDone",
    "StepKey",
    "StepProgress",
    "StepRecord",
    "StepReleased",
    "StepTable",
    "Workflow",
    "WorkflowEnded",
    "WorkflowKey",
    "next_move",
)

STEPS: Final = "Step"
"""The name of the owner of these records."""

Scope: TypeAlias = Literal["command", "key"]
"""What the key of a workflow is: the id of its command, or a key that its handler has given."""


class WorkflowKey(NamedTuple):
    """Which workflow."""

    scope: Scope
    key: str


class StepKey(NamedTuple):
    """Which step."""

    workflow: WorkflowKey
    name: str

    @property
    def id(self) -> str:
        """The key of the workflow, a slash and the name of the step, which has no slash."""
        return f"{self.workflow.key}/{self.name}"


# -- records -----------------------------------------------------------------------------------------------------------


class StepClaimed(Struct, frozen=True, omit_defaults=True, tag_field="is", tag="claimed"):
    """A step may begin. Its function is called when this is durable."""

    scope: Scope
    key: str
    name: str
    at: int
    """Milliseconds since 1970."""
    command: str
    """The id of the command with which the workflow began."""
    type: str
    """The type of that command."""
    content: str = ""
    """The hash of what the command says, if its id is the key."""


class StepDone(Struct, frozen=True, omit_defaults=True, tag_field="is", tag="done"):
    """A step has a result."""

    scope: Scope
    key: str
    name: str
    at: int
    command: str
    type: str
    result: Raw
    content: str = ""
    request: int = 0
    """The number of the request that it belongs to; 0 if a person has settled it."""
    attempt: int = 0
    """In which attempt to handle that request it was recorded, from 1."""


class StepReleased(Struct, frozen=True, tag_field="is", tag="released"):
    """A step was not carried out."""

    scope: Scope
    key: str
    name: str
    at: int


class WorkflowEnded(Struct, frozen=True, tag_field="is", tag="ended"):
    """The steps with a key are not needed any more; unless the command is replayed, because its answer could not be delivered."""

    scope: Scope
    key: str


class ReplayStarted(Struct, frozen=True, tag_field="is", tag="replay"):
    """A command with a new id continues a workflow."""

    id: str
    command: str
    """The id of the command with which the workflow began."""
    at: int


class StepProgress(Struct, frozen=True, tag_field="is", tag="progress"):
    """In which attempt a request has recorded its last step."""

    command: str
    request: int
    attempt: int
    at: int


StepRecord: TypeAlias = StepClaimed | StepDone | StepReleased | WorkflowEnded | ReplayStarted | StepProgress

_decode = msgspec.json.Decoder(StepRecord).decode


# -- state -------------------------------------------------------------------------------------------------------------


@final
class RecordedStep:
    """A step that is claimed or has a result."""

    __slots__ = ("at", "codec", "command", "is_unreadable", "key", "result", "type")

    def __init__(self, key: StepKey, at: int, command: str, type_name: str, result: Raw | None) -> None:
        self.key = key
        self.at = at
        self.command = command
        self.type = type_name
        self.result = result
        """Its result as JSON; None if it is claimed."""
        # Not in the journal: how a workflow of this process reads its result, and whether that has failed.
        self.codec: PayloadCodec | None = None
        self.is_unreadable = False


@final
class Workflow:
    """The steps with one key."""

    __slots__ = ("attempt", "changed_at", "content", "key", "replays", "request", "steps")

    def __init__(self, key: WorkflowKey) -> None:
        self.key = key
        self.content = ""
        self.steps: dict[str, RecordedStep] = {}
        self.changed_at = 0
        """When it was changed last, in milliseconds since 1970."""
        self.replays: list[str] = []
        """The ids of commands that continue it."""
        self.request = self.attempt = 0
        """The last request that has recorded a step, by its number, and in which attempt that was."""

    @property
    def has_unknown(self) -> bool:
        """Whether a step is claimed and has no result."""
        return any(step.result is None for step in self.steps.values())


class Move(Enum):
    """What to do with a step."""

    RUN = "run"
    RETURN = "return"
    """Return the recorded result."""
    CHECK = "check"
    """Ask the function that finds out what has become of it."""
    REPORT = "report"
    """Raise `StepUnknownError`."""


def next_move(step: RecordedStep | None, *, is_retry_safe: bool, has_check: bool) -> Move:
    """Decide what to do with a step that does not run now.

    Args:
        step: the step; None if it is neither claimed nor has a result.
        is_retry_safe: whether it may be carried out again.
        has_check: whether a function can find out what has become of it.
    """
    if step is None:
        return Move.RUN
    if step.result is not None:
        return Move.RETURN
    if is_retry_safe:
        return Move.RUN
    return Move.CHECK if has_check else Move.REPORT


@final
class StepTable:
    """All steps of a node: a `DataOwner`."""

    __slots__ = ("_roots", "ended", "workflows")

    def __init__(self) -> None:
        self.workflows: OrderedDict[WorkflowKey, Workflow] = OrderedDict()
        """The workflow that was changed last is the last one."""
        self.ended: dict[str, Workflow] = {}
        """Workflows of commands that have ended, by the ids of these: a replay of one finds its results. `forget` removes them."""
        # The commands that continue the workflow of another one.
        self._roots: dict[str, str] = {}

    def find(self, key: StepKey) -> RecordedStep | None:
        """Return a step; None if it is neither claimed nor has a result."""
        workflow = self.workflows.get(key.workflow)
        return None if workflow is None else workflow.steps.get(key.name)

    def root_of(self, command: str) -> str:
        """Return the id of the command whose workflow a command continues: often its own."""
        return self._roots.get(command, command)

    def attempts_before_progress(self, command: str, request: int) -> int:
        """Return how many attempts to handle a request came before the one that has recorded its last step."""
        workflow = self.workflows.get(WorkflowKey("command", self.root_of(command)))
        if workflow is None or workflow.request != request:
            return 0
        return max(0, workflow.attempt - 1)

    def expire(self, now: int, keep_ms: int, is_needed: Callable[[Workflow], bool]) -> None:
        """Forget workflows that have not changed for `keep_ms`, unless they are needed or have an unknown step."""
        workflows = self.workflows
        for _ in range(len(workflows)):
            workflow = next(iter(workflows.values()))
            if workflow.changed_at + keep_ms >= now:
                return
            if workflow.has_unknown or is_needed(workflow):
                # It is looked at again when as much time has passed.
                self._touch(workflow, now)
            else:
                self._end(workflow.key)

    def forget(self, command: str) -> None:
        """Forget a workflow that has ended: its command cannot be replayed."""
        self.ended.pop(command, None)

    # -- the owner of data ---------------------------------------------------------------------------------------------

    def apply(self, data: Raw, _at: int, _page: int) -> None:
        """Take a record. It has its own time.

        Raises:
            JournalCorruptError: it cannot be read.
        """
        try:
            record: StepRecord = _decode(data)
        except DECODE_ERRORS as error:
            raise JournalCorruptError(
                "a record of a step cannot be read: it was not written by a node of bandstand"
            ) from error
        match record:
            case StepClaimed():
                self._set(record, None)
            case StepDone():
                self._set(record, record.result.copy())
                if record.request:
                    self._note_progress(record.command, record.request, record.attempt, record.at)
            case StepReleased():
                self._release(record)
            case WorkflowEnded():
                workflow = self._end(WorkflowKey(record.scope, record.key))
                if workflow is not None and record.scope == "command" and workflow.steps:
                    self.ended[record.key] = workflow
            case ReplayStarted():
                key = WorkflowKey("command", record.command)
                if (ended := self.ended.pop(record.command, None)) is not None:
                    self.workflows.setdefault(key, ended)
                workflow = self._workflow(key, record.at)
                workflow.replays.append(record.id)
                self._roots[record.id] = record.command
            case StepProgress():
                self._note_progress(record.command, record.request, record.attempt, record.at)

    def clear(self) -> None:
        """Forget everything."""
        self.workflows.clear()
        self.ended.clear()
        self._roots.clear()

    def entries(self) -> Iterator[Raw]:
        """Yield records from which `apply` makes the present state."""
        for workflow in (*self.ended.values(), *self.workflows.values()):
            for record in _records_of(workflow):
                yield Raw(msgspec.json.encode(record))
            if self.ended.get(workflow.key.key) is workflow:
                yield Raw(msgspec.json.encode(WorkflowEnded(*workflow.key)))

    def _set(self, record: StepClaimed | StepDone, result: Raw | None) -> None:
        key = WorkflowKey(record.scope, record.key)
        workflow = self._workflow(key, record.at)
        workflow.content = record.content or workflow.content
        step = RecordedStep(StepKey(key, record.name), record.at, record.command, record.type, result)
        workflow.steps[record.name] = step

    def _release(self, record: StepReleased) -> None:
        key = WorkflowKey(record.scope, record.key)
        workflow = self.workflows.get(key)
        if workflow is None:
            return
        workflow.steps.pop(record.name, None)
        self._touch(workflow, record.at)
        if not workflow.steps and not workflow.replays and not workflow.request:
            del self.workflows[key]

    def _note_progress(self, command: str, request: int, attempt: int, at: int) -> None:
        workflow = self._workflow(WorkflowKey("command", command), at)
        workflow.request, workflow.attempt = request, attempt

    def _workflow(self, key: WorkflowKey, at: int) -> Workflow:
        workflow = self.workflows.get(key)
        if workflow is None:
            workflow = self.workflows[key] = Workflow(key)
        self._touch(workflow, at)
        return workflow

    def _touch(self, workflow: Workflow, at: int) -> None:
        workflow.changed_at = at
        self.workflows.move_to_end(workflow.key)

    def _end(self, key: WorkflowKey) -> Workflow | None:
        workflow = self.workflows.pop(key, None)
        if workflow is not None:
            for command in workflow.replays:
                self._roots.pop(command, None)
            workflow.replays = []
        return workflow


def _records_of(workflow: Workflow) -> Iterator[StepRecord]:
    scope, key = workflow.key
    for command in workflow.replays:
        yield ReplayStarted(command, key, workflow.changed_at)
    for name, step in workflow.steps.items():
        content = workflow.content
        if step.result is None:
            yield StepClaimed(scope, key, name, step.at, step.command, step.type, content)
        else:
            yield StepDone(scope, key, name, step.at, step.command, step.type, step.result, content)
    if workflow.request:
        yield StepProgress(key, workflow.request, workflow.attempt, workflow.changed_at)
