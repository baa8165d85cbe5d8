"""Watching descriptors: a private epoll, one-shot, under the host's own.

The problem. Handing a user's descriptors to the host loop one by one ties us to what each host does when a descriptor
is closed behind its back; one of them aborts the process. And a level-triggered host reports the same readiness over
and over until somebody has read.

The choice. One epoll of our own, whose descriptor is the only one the host ever sees. Every watch is one-shot: after
its event it is silent until it is armed again, which happens when the owner has handled the event. Arming a closed
descriptor is a plain EBADF or ENOENT. A slow sweep finds those that were closed while armed: the kernel drops a closed
descriptor from an epoll without a word.

A number that was closed and given out again belongs to somebody else. Each watch remembers the identity (device, inode,
type) of what it watched; before an event is delivered, and in the sweep, it is compared. Eventfds, terminals and others
share an inode or get it again; for those the sweep finds that the epoll has forgotten the number, but an event that is
already on its way cannot be told from the new one's.

Only Linux has epoll. Elsewhere watching raises `IoRegistrationFailed`; everything else works.
"""

from __future__ import annotations

import os
import select
import stat
from fcntl import F_DUPFD_CLOEXEC, fcntl
from typing import TYPE_CHECKING, TypeAlias, final

from bandstand.core.enums import Interest, Readiness
from bandstand.errors import IoRegistrationFailed

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId

__all__ = ("FdPoller", "FdWatch")

Identity: TypeAlias = tuple[int, int, int]

MOST_EVENTS = 1024
SWEPT_AT_ONCE = 256
OUT_OF_THE_WAY = 512


@final
class FdWatch:
    """One descriptor, watched for one actor."""

    __slots__ = ("actor", "fd", "identity", "is_armed", "is_broken", "is_wanted", "mask")

    def __init__(self, actor: ActorId, fd: int, identity: Identity, mask: int) -> None:
        self.actor = actor
        self.fd = fd
        self.identity = identity
        self.mask = mask
        # Waiting for a readiness; not so while one is being handled.
        self.is_armed = True
        # Found closed: it says so once and is silent from then on.
        self.is_broken = False
        # Not unwatched: what waits in the owner's mailbox is to be delivered.
        self.is_wanted = True

    def is_same(self) -> bool:
        """Whether the number still means what it meant when the watch was made."""
        return identify(self.fd) == self.identity


def identify(fd: int) -> Identity | None:
    """What a number means at present; None if it is not open."""
    try:
        found = os.fstat(fd)
    except (OSError, OverflowError):
        return None
    return (found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode))


@final
class FdPoller:
    """All watched descriptors of one loop."""

    __slots__ = ("_by_actor", "_epoll", "_unswept", "_watches")

    def __init__(self) -> None:
        if not hasattr(select, "epoll"):
            raise IoRegistrationFailed("watching descriptors needs epoll, which this platform has not")
        self._epoll = make_epoll()
        self._watches: dict[int, FdWatch] = {}
        self._by_actor: dict[ActorId, dict[int, FdWatch]] = {}
        self._unswept: list[FdWatch] = []

    def fileno(self) -> int:
        """The one descriptor for the host to watch: readable while an event waits."""
        return self._epoll.fileno()

    def find(self, fd: int) -> FdWatch | None:
        """The watch of a descriptor, broken ones included."""
        return self._watches.get(fd)

    def add(self, fd: int, actor: ActorId, interest: Interest) -> FdWatch:
        """FdWatch a descriptor that is not being watched.

        Raises:
            IoRegistrationFailed: it is not open, or is of a kind that cannot be waited for (a regular file).
        """
        mask = select.EPOLLONESHOT
        if Interest.READ in interest:
            mask |= select.EPOLLIN
        if Interest.WRITE in interest:
            mask |= select.EPOLLOUT
        identity = identify(fd)
        if identity is None:
            raise IoRegistrationFailed(f"descriptor {fd} cannot be watched: it is not open")
        try:
            self._epoll.register(fd, mask)
        except FileExistsError:
            # Left over from a watch whose descriptor was closed here while a duplicate kept the file open.
            self._epoll.modify(fd, mask)
        except OSError as error:
            raise IoRegistrationFailed(
                f"descriptor {fd} cannot be watched: {os.strerror(error.errno or 0)}; pipes, sockets, terminals and "
                f"eventfds can, regular files cannot"
            ) from error
        watch = self._watches[fd] = FdWatch(actor, fd, identity, mask)
        self._by_actor.setdefault(actor, {})[fd] = watch
        return watch

    def remove(self, watch: FdWatch) -> bool:
        """Stop a watch. What waits of it in a mailbox is not wanted any more.

        False if its descriptor was closed behind our back: then the epoll must be built anew.
        """
        watch.is_wanted = False
        self.forget(watch)
        if watch.is_broken:
            return True
        if not watch.is_same():
            return False
        try:
            self._epoll.unregister(watch.fd)
        except OSError:
            return False
        return True

    def forget(self, watch: FdWatch) -> None:
        """Take a watch out of the books; what waits of it in a mailbox is still wanted."""
        del self._watches[watch.fd]
        siblings = self._by_actor[watch.actor]
        del siblings[watch.fd]
        if not siblings:
            del self._by_actor[watch.actor]

    def of(self, actor: ActorId) -> list[FdWatch]:
        """All watches of one actor."""
        return list(self._by_actor.get(actor, {}).values())

    def poll(self) -> list[tuple[FdWatch, Readiness | None]]:
        """What is ready now, without waiting; each of it is silent until it is armed again.

        None instead of a readiness: the descriptor was closed behind our back.
        """
        ready: list[tuple[FdWatch, Readiness | None]] = []
        for fd, mask in self._epoll.poll(0, MOST_EVENTS):
            watch = self._watches.get(fd)
            if watch is None or watch.is_broken or not watch.is_armed:
                continue
            watch.is_armed = False
            ready.append((watch, readiness_of(mask, watch.mask) if watch.is_same() else None))
        return ready

    def arm(self, watch: FdWatch) -> bool:
        """Have the next readiness of a watch reported; False if its descriptor was closed meanwhile."""
        if not watch.is_same():
            return False
        try:
            self._epoll.modify(watch.fd, watch.mask)
        except OSError:
            return False
        watch.is_armed = True
        return True

    def sweep(self) -> list[FdWatch]:
        """Find watches whose descriptor was closed behind our back.

        Each call looks at a slice, the next one further on, so that ten thousand connections do not stall the loop.
        """
        if not self._unswept:
            self._unswept = list(self._watches.values())
        slice_, self._unswept = self._unswept[-SWEPT_AT_ONCE:], self._unswept[:-SWEPT_AT_ONCE]
        live = [watch for watch in slice_ if watch.is_wanted and not watch.is_broken]
        # Arming an armed watch anew changes nothing, but finds out whether the epoll still has it: that also tells
        # numbers that were opened again on the very same file, where identities are equal.
        return [watch for watch in live if not (self.arm(watch) if watch.is_armed else watch.is_same())]

    def rebuild(self) -> select.epoll | None:
        """Start over with a fresh epoll, for the living watches only; the old one, for the caller to close.

        A number that was closed while a duplicate keeps its file open stays in an epoll, under that number, and cannot
        be told to go: whoever has the number next would get its events. Closing by mistake is rare; this is the way out.
        None if the process has no descriptor to spare: then the old one stays, and the next time will do.
        """
        try:
            fresh = make_epoll()
        except IoRegistrationFailed:
            return None
        for watch in self._watches.values():
            if watch.is_broken or not (self.arm(watch) if watch.is_armed else watch.is_same()):
                # Closed as well, and maybe opened again as something else: the sweep will find it.
                continue
            fresh.register(watch.fd, watch.mask if watch.is_armed else select.EPOLLONESHOT)
        old, self._epoll = self._epoll, fresh
        return old

    def close(self) -> None:
        """Release the epoll. The watched descriptors are their owners'."""
        self._epoll.close()


def readiness_of(mask: int, wanted: int) -> Readiness:
    """Translate an epoll's answer. A hang-up is readable (or writable) to whoever watches: the next call will tell."""
    readiness = Readiness(0)
    if mask & select.EPOLLIN:
        readiness |= Readiness.READ
    if mask & select.EPOLLOUT:
        readiness |= Readiness.WRITE
    if mask & (select.EPOLLHUP | select.EPOLLERR):
        if wanted & select.EPOLLIN:
            readiness |= Readiness.READ
        if wanted & select.EPOLLOUT:
            readiness |= Readiness.WRITE
    if mask & select.EPOLLERR:
        readiness |= Readiness.ERROR
    return readiness


def make_epoll() -> select.epoll:
    """Make an epoll, or say why there is none.

    Its number is a high one where that is possible. Somebody who closes a descriptor twice by mistake closes whatever
    has got its number meanwhile, and a host whose descriptor is closed under it may abort the process.
    """
    try:
        low = select.epoll()
    except OSError as error:
        raise IoRegistrationFailed(f"nothing can be watched: {error.strerror}") from error
    try:
        high = fcntl(low.fileno(), F_DUPFD_CLOEXEC, OUT_OF_THE_WAY)
    except OSError:
        # Numbers that high are not allowed here.
        return low
    low.close()
    return select.epoll.fromfd(high)
