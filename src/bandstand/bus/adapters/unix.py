"""The Unix socket adapter: clients of the same user, on the same machine.

*Access.* The socket file has mode 0600 from the moment it exists, so only the owner can connect. Where the operating system tells
who has connected (Linux), every user other than the node's own and root is rejected as well: the mode may have been changed, or a
descriptor passed on. With `allow_uids` the file has mode 0666, and this check alone decides.

*Taking over a stale socket.* A node that was killed leaves its socket file behind, and the next node must start all the same; but a
running node must never lose its socket. To test whether a node answers and then take over is not enough: two nodes that start
together would both get no answer. So a listening node holds a lock on a file beside the socket. The operating system releases the
lock with the process, however that ends. A socket that refuses connections while we hold the lock is stale, and only then is it
removed. Any other file at that path is left alone.
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

from bandstand.bus.adapters import authentication
from bandstand.bus.adapters.listener import BACKLOG, Listener
from bandstand.bus.client.config import MAX_SOCKET_PATH
from bandstand.errors import InvalidArgumentError, ListenError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bandstand.bus.adapters.limits import Limits

__all__ = ("UnixAdapter",)

MODE = 0o600
# With `allow_uids`: the check of the peer's user decides.
OPEN_MODE = 0o666


@final
class UnixAdapter(Listener):
    """NDJSON over a Unix socket.

    Args:
        path: the path of the socket. Its directory must exist; a lock file with the suffix `.lock` is made beside the socket.
        limits: the limits of each client; the defaults if None.
        allow_uids: the ids of other users who may connect, besides the node's own and root. The socket then has mode 0666; the
            directory's mode still applies.

    Raises:
        InvalidArgumentError: the path cannot be the path of a socket; or `allow_uids` is set where the platform does not tell who connects.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limits: Limits | None = None,
        allow_uids: Iterable[int] = (),
    ) -> None:
        super().__init__(UnixEndpoint(path, allow_uids), limits)


@final
class UnixEndpoint:
    """A Unix socket to listen on, with its lock file. See `UnixAdapter` for the arguments."""

    def __init__(self, path: str | os.PathLike[str], allow_uids: Iterable[int]) -> None:
        self._allowed = frozenset(allow_uids)
        for uid in self._allowed:
            if type(uid) is not int or not 0 <= uid < 1 << 32:
                raise InvalidArgumentError(
                    f"allow_uids has {safe_repr(uid)}: pass the numbers of users, as `id -u NAME` prints them"
                )
        if self._allowed and not authentication.HAS_PEER_CREDENTIALS:
            raise InvalidArgumentError(
                f"allow_uids is {sorted(self._allowed)}: this platform does not tell who connects, so only the mode of the socket can "
                f"keep other users out; leave it empty"
            )
        self._path = os.fspath(path)
        if type(self._path) is not str or not self._path or "\0" in self._path:
            raise InvalidArgumentError(f"path is {safe_repr(path)}: pass the name of a file")
        length = len(os.fsencode(self._path))
        if length > MAX_SOCKET_PATH:
            raise InvalidArgumentError(
                f"path is {self._path!r}: it has {length} bytes, and the limit for a socket is {MAX_SOCKET_PATH}. Pass a shorter one, or "
                f"change to its directory and pass a relative one."
            )
        # Absolute, so that a change of the current directory makes no difference.
        self._absolute = ""
        self._lock: int | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """The address, such as `unix:/run/x.sock`."""
        return f"unix:{self._path}"

    @property
    def mode(self) -> int:
        """The mode of the socket file."""
        return MODE if not self._allowed - {0, os.geteuid()} else OPEN_MODE

    def check_peer(self, connection: socket.socket) -> str:
        """Return why the user at the other end may not connect; an empty string if it may."""
        try:
            uid = authentication.peer_uid(connection)
        except OSError as error:
            return f"the operating system does not tell who has connected: {error.strerror or error}"
        if uid is None or uid in {0, os.geteuid()} or uid in self._allowed:
            return ""
        return (
            f"the node belongs to user {os.geteuid()}, and you are user {uid}: ask its owner to add you to allow_uids of its "
            f"UnixAdapter"
        )

    async def bind(self) -> socket.socket:
        """Take the lock, remove a stale socket, and listen. On failure nothing is left behind.

        Raises:
            ListenError: says why.
        """
        return self._listen()

    def _listen(self) -> socket.socket:
        self._absolute = os.path.abspath(self._path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._take_lock()
            self._remove_stale_socket()
            if sys.platform == "linux":
                # The file gets the mode of the socket when it is made. On other systems `chmod` runs before `listen`.
                os.fchmod(listening.fileno(), self.mode)
            listening.bind(self._path)
            self._identity = _identity(os.lstat(self._absolute))
            os.chmod(self._absolute, self.mode)
            # Clients can connect from here on.
            listening.listen(BACKLOG)
            listening.settimeout(0)
        except BaseException as error:  # also on cancellation, nothing stays behind
            listening.close()
            self.release()
            if isinstance(error, OSError) and not isinstance(error, ListenError):
                raise self._failure(_explain(error, os.path.dirname(self._absolute))) from error
            raise
        return listening

    def release(self) -> None:
        """Remove the socket file if it is still ours, and release the lock."""
        if self._lock is None:
            return
        with suppress(OSError):
            if self._identity == _identity(os.lstat(self._absolute)):
                os.unlink(self._absolute)
        self._identity = None
        # Removed before it is released: afterwards another node may hold the lock on it.
        lock_path = f"{self._absolute}.lock"
        with suppress(OSError):
            if _identity(os.fstat(self._lock)) == _identity(os.lstat(lock_path)):
                os.unlink(lock_path)
        os.close(self._lock)
        self._lock = None

    def _take_lock(self) -> None:
        path = f"{self._absolute}.lock"
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_current = _identity(os.fstat(lock)) == _identity(os.lstat(path))
            except BlockingIOError:
                os.close(lock)
                raise self._failure(
                    f"another node uses it (it holds {path}). Stop it first, or pass another path."
                ) from None
            except FileNotFoundError:
                is_current = False
            except BaseException:  # also on cancellation, the descriptor is closed
                os.close(lock)
                raise
            if is_current:
                self._lock = lock
                return
            # Its owner removed the file between `open` and `flock`: we hold the lock on a file without a name.
            os.close(lock)

    def _remove_stale_socket(self) -> None:
        try:
            found = os.lstat(self._absolute)
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(found.st_mode):
            raise self._failure(
                "a file that is not a socket is there already. Move it away, or pass another path."
            )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            # Non-blocking: a listener with a full backlog would make us wait.
            probe.settimeout(0)
            result = probe.connect_ex(self._path)
        if result == errno.ECONNREFUSED:
            os.unlink(self._absolute)
        elif result != errno.ENOENT:
            raise self._failure("another process listens there already. Stop it first, or pass another path.")

    def _failure(self, problem: str) -> ListenError:
        return ListenError(f"cannot listen at {self.name}: {problem}")


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _explain(error: OSError, directory: str) -> str:
    match error.errno:
        case errno.ENOENT:
            return f"the directory {directory} does not exist. Make it first."
        case errno.ENOTDIR:
            return f"{directory} is not a directory."
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"this user may not make files in {directory}, or does not own the ones there ({error.strerror})."
        case errno.ELOOP:
            return "its lock is a symbolic link, which is not followed. Remove it."
        case errno.EADDRINUSE:
            return "another process has just made a file there. Try again."
        case _:
            return f"{error.strerror or error}."
