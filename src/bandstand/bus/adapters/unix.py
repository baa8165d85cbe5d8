"""Clients over a Unix socket: programs of the same user, on the same machine.

The file of the socket has the mode 0600, from the moment it is there: nobody else can connect, and nobody could have before. Who has
connected all the same, because somebody has changed the mode or passed a descriptor on, is asked of the operating system where that says so (Linux), and others
than the node's own user and root are turned away. With `allow_uids` the file is open to everybody, and this alone decides.

A node that was killed leaves its socket behind, and the next one should start all the same; but a node that lives must never lose
its socket to another. Looking whether anybody answers and then taking over is not enough: two that start together would both find
nobody. So whoever listens holds a lock on a file beside the socket for as long as he does. The lock ends with the process, however
that ends. Under the lock, a socket at which nobody answers is stale, and only then is it removed. Anything else that lies there is
left alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, final

from bandstand.bus.adapters import peer
from bandstand.bus.adapters.listening import BACKLOG, Listener
from bandstand.errors import CannotListen, InvalidArgument
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bandstand.bus.adapters.limits import Limits

__all__ = ("UnixAdapter",)

# What fits into the address of a socket, without the zero at its end.
LONGEST_PATH = 107 if sys.platform == "linux" else 103

MODE = 0o600
# Where others may connect: who they are is asked of each.
OPEN_MODE = 0o666


@final
class UnixAdapter(Listener):
    """NDJSON over a Unix socket.

    Args:
        path: where the socket is to be. The directory must be there; beside the socket there is a file with `.lock` after its name.
        limits: how much each client may ask.
        allow_uids: the numbers of other users who may connect, besides the node's own and root. Then the socket has the mode 0666, so
            that they can; its directory still decides who gets near it.

    Raises:
        InvalidArgument: there can be no socket of that name; or others are to be allowed where the platform does not say who connects.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limits: Limits | None = None,
        allow_uids: Iterable[int] = (),
    ) -> None:
        super().__init__(limits)
        self._guests = frozenset(allow_uids)
        for uid in self._guests:
            if type(uid) is not int or not 0 <= uid < 1 << 32:
                raise InvalidArgument(
                    f"allow_uids has {safe_repr(uid)}: pass the numbers of users, as `id -u NAME` prints them"
                )
        if self._guests and not peer.CAN_TELL:
            raise InvalidArgument(
                f"allow_uids is {sorted(self._guests)}: this platform does not say who connects, so there is nothing but the socket's mode to "
                f"keep others out"
            )
        self._path = os.fspath(path)
        if type(self._path) is not str or not self._path or "\0" in self._path:
            raise InvalidArgument(f"path is {safe_repr(path)}: pass the name of a file")
        length = len(os.fsencode(self._path))
        if length > LONGEST_PATH:
            raise InvalidArgument(
                f"path is {self._path!r}: it has {length} bytes, and the address of a socket holds {LONGEST_PATH}. Choose a "
                f"shorter one, or change to its directory and pass a relative one."
            )
        # Where it is whatever becomes of the current directory.
        self._place = ""
        self._lock: int | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """Where it is, as `unix:/run/x.sock`."""
        return f"unix:{self._path}"

    def _object_to(self, connection: socket.socket) -> str:
        try:
            uid = peer.uid_of(connection)
        except OSError as error:
            return f"the operating system does not say who this is: {error.strerror or error}"
        if uid is None or uid in {0, os.geteuid()} or uid in self._guests:
            return ""
        return (
            f"the node belongs to the user {os.geteuid()}, and you are {uid}: ask its owner to let you in, with allow_uids of its "
            f"UnixAdapter"
        )

    @property
    def _mode(self) -> int:
        return MODE if not self._guests - {0, os.geteuid()} else OPEN_MODE

    async def _bind(self) -> socket.socket:
        return self._bind_now()

    def _bind_now(self) -> socket.socket:
        self._place = os.path.abspath(self._path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._take_lock()
            self._clear_way()
            if sys.platform == "linux":
                # The file is born with the mode that the socket has. Elsewhere it gets it before anybody is listened to.
                os.fchmod(listening.fileno(), self._mode)
            listening.bind(self._path)
            self._identity = _identity(os.lstat(self._place))
            os.chmod(self._place, self._mode)
            # Only from here on can anybody connect.
            listening.listen(BACKLOG)
            listening.settimeout(0)
        except BaseException as error:  # whatever it was: nothing stays behind
            listening.close()
            self._release()
            if isinstance(error, OSError) and not isinstance(error, CannotListen):
                raise self._failure(_explain(error, os.path.dirname(self._place))) from error
            raise
        return listening

    def _release(self) -> None:
        if self._lock is None:
            return
        # Whoever has put something else there in the meantime may keep it.
        with suppress(OSError):
            if self._identity == _identity(os.lstat(self._place)):
                os.unlink(self._place)
        self._identity = None
        # Removed before it is let go, so that nobody has it who could lose it to somebody else.
        lock_path = f"{self._place}.lock"
        with suppress(OSError):
            if _identity(os.fstat(self._lock)) == _identity(os.lstat(lock_path)):
                os.unlink(lock_path)
        os.close(self._lock)
        self._lock = None

    def _take_lock(self) -> None:
        path = f"{self._place}.lock"
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_there = _identity(os.fstat(lock)) == _identity(os.lstat(path))
            except BlockingIOError:
                os.close(lock)
                raise self._failure(
                    f"another node has it (it holds {path}). Stop it first, or choose another path."
                ) from None
            except FileNotFoundError:
                is_there = False
            except BaseException:  # whatever it was, the descriptor is ours
                os.close(lock)
                raise
            if is_there:
                self._lock = lock
                return
            # Its owner has removed it between our two steps: what we have locked is a file without a name.
            os.close(lock)

    def _clear_way(self) -> None:
        """Remove a socket at which nobody answers."""
        try:
            found = os.lstat(self._place)
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(found.st_mode):
            raise self._failure(
                "something that is no socket lies there. Move it away, or choose another path."
            )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            # One that lives but has no room for us says so at once, instead of making us wait.
            probe.settimeout(0)
            answer = probe.connect_ex(self._path)
        if answer == errno.ECONNREFUSED:
            os.unlink(self._place)
        elif answer != errno.ENOENT:
            raise self._failure("somebody listens there already. Stop it first, or choose another path.")

    def _failure(self, problem: str) -> CannotListen:
        return CannotListen(f"cannot listen at {self.name}: {problem}")


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _explain(error: OSError, directory: str) -> str:
    match error.errno:
        case errno.ENOENT:
            return f"the directory {directory} is not there. Make it first."
        case errno.ENOTDIR:
            return f"{directory} is no directory."
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"we may not make files in {directory}, or the ones there are not ours ({error.strerror})."
        case errno.ELOOP:
            return "its lock is a symbolic link, which is not followed. Remove it."
        case errno.EADDRINUSE:
            return "somebody has just put something there. Try again."
        case _:
            return f"{error.strerror or error}."
