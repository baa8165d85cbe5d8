"""What can go wrong with pods, and between processes."""

from bandstand.errors.exceptions import BandstandError, NoSuchActor

__all__ = (
    "PodDown",
    "PodFailed",
    "PodGone",
    "PodTimeout",
    "RemoteError",
)


class PodGone(NoSuchActor):
    """The pod has ended for good, or its troupe has: nobody will come back behind this handle."""

    code = -130


class PodDown(NoSuchActor):
    """The pod is down at this moment, and the handle was told not to wait for it, or as much waits for it as may."""

    code = -131


class PodTimeout(BandstandError, TimeoutError):
    """The pod was not back in time. The message was not sent."""

    code = -132


class PodFailed(BandstandError):
    """A pod has failed for good, and its troupe has ended with it. `__cause__` is why, if there was an exception."""

    code = -133

    pod: str = ""
    """Which."""
    actor: str = ""
    """Whose failure it was; empty if it was nobody's in particular."""
    reason: str = ""
    """Why, in a sentence."""

    @classmethod
    def of(cls, pod: str, actor: str, reason: str, cause: BaseException | None = None) -> "PodFailed":
        """Build the error for one pod."""
        whose = f", whose actor {actor!r} failed" if actor else ""
        error = cls(f"pod {pod!r}{whose}: {reason}")
        error.pod, error.actor, error.reason = pod, actor, reason
        error.__cause__ = cause
        return error


class RemoteError(BandstandError):
    """An exception of another process, which cannot be rebuilt in this one: it says what it was, and where."""

    code = -134

    kind: str = ""
    """The name of its class, with its module."""
