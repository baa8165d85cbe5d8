"""How a troupe is, at one moment, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass

__all__ = ("Health",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What a look at a troupe has found. `bool(health)` is whether all is well."""

    troupe: str
    is_kubelet_alive: bool
    """Whether the thread that watches the pods runs."""
    is_kubelet_prompt: bool
    """Whether it has answered within the time that the look had: if not, something blocks it, and no pod is started again."""
    kubelet_ms: float
    """How long its answer took; or how long it has not answered."""
    kubelet_at: str = ""
    """What its thread is at when it does not answer: the line, and the actor whose handler it is. Else empty."""
    down: tuple[str, ...] = ()
    """The pods that do not run at this moment, and will be back."""
    gone: tuple[str, ...] = ()
    """The pods that have failed for good."""
    stuck: tuple[str, ...] = ()
    """The pods whose thread, or process, has not answered in time."""
    cut_off: tuple[str, ...] = ()
    """The process pods that answer their kubelet in time, but not over the link by which messages reach them."""
    nested: tuple[Health, ...] = ()
    """How the troupes inside it are."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, one sentence each, for people."""
        found: list[str] = []
        if not self.is_kubelet_alive:
            found.append(
                f"troupe {self.troupe!r}: its kubelet does not run, and nobody starts its pods again"
            )
        elif not self.is_kubelet_prompt:
            found.append(
                f"troupe {self.troupe!r}: its kubelet has not answered for {self.kubelet_ms:.0f} ms: something blocks its "
                f"thread, {self.kubelet_at or 'most likely a handler of a cooperative pod'}"
            )
        for names, what in (
            (self.down, "is down, and will be back"),
            (self.gone, "has failed for good"),
            (self.stuck, "has not answered in time: a handler keeps it busy"),
            (self.cut_off, "has not answered over its link in time: messages may not reach it"),
        ):
            found += [f"troupe {self.troupe!r}: pod {name!r} {what}" for name in names]
        return (*found, *(problem for each in self.nested for problem in each.problems))

    def to_dict(self) -> dict[str, object]:
        """The same in plain values, as JSON has them."""
        return {**asdict(self), "problems": list(self.problems)}

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        return "\n".join(self.problems) or f"troupe {self.troupe!r} is well"
