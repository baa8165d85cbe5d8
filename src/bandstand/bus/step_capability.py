"""The built-in capability `Step` of a node with a journal: people list the steps of workflows, and settle those whose outcome is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, final

from msgspec import Meta, Raw, Struct

from bandstand.bus.contracts.capability import Capability
from bandstand.bus.contracts.messages import Command, Query
from bandstand.bus.durable.steps import RecordedStep, Scope, WorkflowKey
from bandstand.bus.faults import SCHEMA_ERROR, FaultAnswer
from bandstand.bus.request import PendingRequest
from bandstand.errors import InvalidMessageError, RefusedError

if TYPE_CHECKING:
    from bandstand.bus.steps import StepRunner

__all__ = (
    "ForgetSteps",
    "ForgottenSteps",
    "ListSteps",
    "SettleStep",
    "SettledStep",
    "ShowStep",
    "StepCapability",
    "StepDetails",
    "StepInfo",
    "StepPage",
    "StepState",
)

StepState: TypeAlias = Literal["unknown", "running", "done"]
"""`unknown`: it was begun, and has no result. A person settles it, or the workflow does, by its `check`."""

StepId = Annotated[
    str,
    Meta(
        min_length=3,
        max_length=301,
        description="The id of a step: the key of its workflow, a slash and its name.",
        examples=["mine-1/charge"],
    ),
]
StepScope = Annotated[
    Scope | None,
    Meta(
        description="Whether the key is the id of a command, or was given by a handler; needed if there are both."
    ),
]


class StepInfo(Struct):
    """A step of a workflow."""

    id: str
    """The key of its workflow, a slash and its name."""
    scope: Scope
    """What the key is: the id of the command, or one that the handler has given."""
    state: StepState
    at: int
    """When it was claimed, or got its result, in milliseconds since 1970."""
    type: str
    """The type of its command."""
    command: str
    """The id of its command."""


class StepPage(Struct):
    """Steps, those of the workflow that was changed last first."""

    steps: list[StepInfo]
    held: int
    """How many steps are recorded, in all states."""


class StepDetails(Struct):
    """A step with its result."""

    step: StepInfo
    result: Raw
    """Its result; null if it has none."""


class SettledStep(Struct):
    """The id of a step that is not unknown any more."""

    id: str


class ForgottenSteps(Struct):
    """How many steps were forgotten."""

    forgotten: int


class ListSteps(Query[StepPage], type="Step.List", remember=False):
    """List the steps of workflows; by default those that have no result."""

    state: StepState | None = None
    key: Annotated[str | None, Meta(description="Only those of the workflow with this key.")] = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    before: Annotated[StepId | None, Meta(description="Only steps that are listed behind this one.")] = None


class ShowStep(Query[StepDetails], type="Step.Show", remember=False):
    """Show a step with its recorded result."""

    id: StepId
    scope: StepScope = None


class SettleStep(Command[SettledStep], type="Step.Settle", retry_safe=True):
    """Say what has become of a step whose outcome is unknown, or correct a recorded result that cannot be read. Then replay its command."""

    id: StepId
    outcome: Annotated[
        Literal["done", "again"],
        Meta(
            description="done: it was carried out, and `data` is its result; again: it was not, and may be carried out.",
            examples=["done"],
        ),
    ]
    data: Raw = Raw(b"null")
    """Its result, if the outcome is `done`."""
    scope: StepScope = None


class ForgetSteps(Command[ForgottenSteps], type="Step.Forget", retry_safe=True):
    """Forget all steps with a key, so that they may be carried out again."""

    key: Annotated[str, Meta(min_length=1, max_length=200, examples=["order-7"])]
    scope: Scope = "key"


@final
class StepCapability(Capability):
    """Lists the steps of workflows, and settles those whose outcome is unknown."""

    id = "Step"

    def __init__(self, runner: StepRunner) -> None:
        self._runner = runner

    def list_steps(self, msg: ListSteps) -> StepPage:
        """List steps."""
        steps = self._newest_first()
        if msg.before is not None:
            before = self._find(msg.before, None)
            while next(steps) is not before:
                pass
        found: list[StepInfo] = []
        for step in steps:
            if len(found) == msg.limit:
                break
            info = self._info(step)
            is_wanted = info.state != "done" if msg.state is None else info.state == msg.state
            if is_wanted and msg.key in {None, step.key.workflow.key}:
                found.append(info)
        return StepPage(found, sum(len(each.steps) for each in self._runner.table.workflows.values()))

    def show(self, msg: ShowStep) -> StepDetails:
        """Show a step."""
        step = self._find(msg.id, msg.scope)
        return StepDetails(self._info(step), Raw(b"null") if step.result is None else step.result)

    def settle(self, msg: SettleStep) -> SettledStep:
        """Settle a step. It takes effect together with the answer."""
        step = self._find(msg.id, msg.scope)
        if self._runner.is_running(step.key):
            raise RefusedError(f"step {msg.id} is running: wait for its end")
        if step.result is not None and not step.is_unreadable:
            raise RefusedError(f"step {msg.id} is done: Step.Show shows its result")
        result = None
        if msg.outcome == "done":
            result = msg.data.copy()
            if step.codec is not None:
                try:
                    step.codec.read(result)
                except InvalidMessageError as problem:
                    where = f"$.data.data{problem.path.removeprefix('$.data')}"
                    raise RefusedError(FaultAnswer(SCHEMA_ERROR, str(problem), where)) from None
        self._runner.settle(self._pending, step, result)
        return SettledStep(msg.id)

    def forget(self, msg: ForgetSteps) -> ForgottenSteps:
        """Forget the steps of a workflow, together with the answer."""
        runner = self._runner
        workflow = runner.table.workflows.get(WorkflowKey(msg.scope, msg.key))
        if workflow is None:
            raise RefusedError(
                f"no steps with the {_named(msg.scope)} {msg.key} are recorded; Step.List lists the steps"
            )
        if runner.is_open(workflow):
            what = (
                "the command is open, or has a dead letter: settle or purge that first"
                if msg.scope == "command"
                else "one of them is running: wait for its end"
            )
            raise RefusedError(f"the steps with the {_named(msg.scope)} {msg.key} are needed: {what}")
        runner.forget(self._pending, workflow)
        return ForgottenSteps(len(workflow.steps))

    @property
    def _pending(self) -> PendingRequest:
        item = self.bus.current_message
        assert isinstance(item, PendingRequest)
        return item

    def _newest_first(self) -> Iterator[RecordedStep]:
        for workflow in reversed(self._runner.table.workflows.values()):
            yield from workflow.steps.values()

    def _find(self, name: str, scope: Scope | None) -> RecordedStep:
        key, _, step_name = name.rpartition("/")
        workflows = self._runner.table.workflows
        scopes: tuple[Scope, ...] = ("command", "key") if scope is None else (scope,)
        found = [
            workflow.steps[step_name]
            for each in scopes
            if (workflow := workflows.get(WorkflowKey(each, key))) is not None and step_name in workflow.steps
        ]
        if not found:
            raise RefusedError(
                f"there is no step {name}: it was never begun, or is forgotten; Step.List lists the steps"
            )
        if len(found) > 1:
            raise RefusedError(
                f"there are two steps {name}, of a command and of a key: add scope=command or scope=key"
            )
        return found[0]

    def _info(self, step: RecordedStep) -> StepInfo:
        state: StepState = "unknown" if step.result is None else "done"
        if self._runner.is_running(step.key):
            state = "running"
        return StepInfo(step.key.id, step.key.workflow.scope, state, step.at, step.type, step.command)


def _named(scope: Scope) -> str:
    return "command" if scope == "command" else "key"
