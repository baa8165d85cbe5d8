"""The closed vocabularies of pods."""

from enum import Enum

__all__ = ("PodPhase", "RestartPolicy", "ThreadModel", "WhenDown")


class PodPhase(Enum):
    """Where a pod stands in its life. A pod that is started again goes from an end back to PENDING."""

    PENDING = "pending"
    """Declared, or about to be started again."""
    RUNNING = "running"
    """All its actors have started, and accept messages."""
    TERMINATING = "terminating"
    """It handles what it has, and accepts nothing any more."""
    COMPLETED = "completed"
    """It has ended in good order."""
    FAILED = "failed"
    """One of its actors has failed and nobody inside caught that, or its thread or process is gone."""

    @property
    def is_end(self) -> bool:
        """Whether an incarnation is over in this phase."""
        return self in {PodPhase.COMPLETED, PodPhase.FAILED}


class RestartPolicy(Enum):
    """When a pod that has ended is started again."""

    ALWAYS = "always"
    """However it has ended."""
    ON_FAILURE = "on_failure"
    """If it has failed."""
    NEVER = "never"


class ThreadModel(Enum):
    """Where a pod runs. Its actors and their handles are the same everywhere."""

    COOPERATIVE = "cooperative"
    """On the kubelet's own thread, in turn with others of its kind: for light ones."""
    DEDICATED = "dedicated"
    """On a thread of its own."""
    MAIN = "main"
    """On the thread that plays the troupe: for what must be there, such as windows."""
    PROCESS = "process"
    """In a process of its own, with its own interpreter: for what needs a core to itself, or may crash."""


class WhenDown(Enum):
    """What a handle does with a message while its pod is down and will be back."""

    WAIT = "wait"
    """A plain thread waits for the pod, for so long. A thread that runs an event loop must not: there the message waits, as with QUEUE."""
    FAIL = "fail"
    """Raise `PodDown` at once."""
    QUEUE = "queue"
    """Keep the message for the pod, for so long. As many are kept as its mailbox would hold; one more is `PodDown`."""
