"""The enums of pods."""

from enum import Enum

__all__ = ("PodPhase", "ThreadModel")


class PodPhase(Enum):
    """The phase of a pod. A pod that is restarted goes from COMPLETED or FAILED back to PENDING."""

    PENDING = "pending"
    """Declared, starting, or waiting to be restarted."""
    RUNNING = "running"
    """All its actors have started and accept messages."""
    TERMINATING = "terminating"
    """It handles the messages it has and accepts no new ones."""
    COMPLETED = "completed"
    """It has ended normally."""
    FAILED = "failed"
    """One of its actors failed and no supervisor in the pod handled that, or its thread or process is gone."""

    @property
    def is_end(self) -> bool:
        """Whether an incarnation in this phase has ended."""
        return self in {PodPhase.COMPLETED, PodPhase.FAILED}


class ThreadModel(Enum):
    """Where a pod runs. The code of its actors and their handles is the same everywhere."""

    COOPERATIVE = "cooperative"
    """On the kubelet's thread, which it shares with the other cooperative pods. For pods with little work."""
    DEDICATED = "dedicated"
    """On its own thread."""
    MAIN = "main"
    """On the thread that calls `play()` or enters `async with`. For libraries that need the main thread, such as GUI toolkits."""
    PROCESS = "process"
    """In its own process, with its own interpreter. For work that needs a core to itself, or may crash."""
