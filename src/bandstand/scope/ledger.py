"""What went wrong in a scope, and what its block ends with for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, final

from bandstand.core.logs import SafeLogger
from bandstand.errors import Cancelled

if TYPE_CHECKING:
    from asyncio import CancelledError

    from bandstand.scope.token import CancelToken

__all__ = ("Ledger",)

logger = SafeLogger("bandstand.scope")


@final
class Ledger:
    """The errors of a scope: the children's, and its body's."""

    __slots__ = ("_above", "_called", "_errors", "_token", "is_from_above")

    def __init__(self, called: str, token: CancelToken, above: CancelToken | None) -> None:
        self._called = called
        self._token = token
        self._above = above
        self._errors: list[BaseException] = []
        self.is_from_above = False
        """Whether the token that was given to the scope is known to have been cancelled."""

    def note(self, error: BaseException) -> BaseException | None:
        """Write an error down, and return what was written: None if it only says that the scope was cancelled.

        A group may say so of some of its waits, and of others something else: that is what remains of it.
        """
        rest = self._rest_of(error)
        if rest is not None:
            self._errors.append(rest)
        return rest

    def _rest_of(self, error: BaseException) -> BaseException | None:
        if not isinstance(error, BaseExceptionGroup):
            return None if self._is_ours(error) else error
        group = cast("BaseExceptionGroup[BaseException]", error)
        if not self._holds_ours(group):
            return group
        try:
            # Before 3.13 it takes functions only, and no methods.
            return group.split(lambda one: self._is_ours(one))[1]  # noqa: PLW0108
        except RecursionError:
            # Nested too deep to be taken apart. Nothing of it may get lost.
            return group

    def _holds_ours(self, group: BaseExceptionGroup[BaseException]) -> bool:
        """Whether some of a group only says that the scope was cancelled. Groups of nested scopes may be thousands deep."""
        if not self._token.cancelled:
            return False
        found = False
        waiting: list[BaseException] = [group]
        while waiting:
            error = waiting.pop()
            if isinstance(error, BaseExceptionGroup):
                waiting.extend(cast("BaseExceptionGroup[BaseException]", error).exceptions)
            elif self._is_ours(error):
                found = True
        return found

    def _is_ours(self, error: BaseException) -> bool:
        if not isinstance(error, Cancelled):
            return False
        above = None if self._above is None else self._above.origin
        if error.token == above:
            # It may have been seen by the clock, before anybody was told.
            self.is_from_above = True
        return error.token in {self._token.origin, above}

    def take(self) -> list[BaseException]:
        """The errors; from now on there are none, so that nobody keeps them."""
        errors, self._errors = self._errors, []
        return errors

    def tell(self) -> None:
        """Nobody is left to raise them: log them."""
        for error in self.take():
            logger.error(
                "a child of %s has failed, which nobody waits for any more", self._called, exc_info=error
            )

    def last_word(
        self, errors: list[BaseException], error: BaseException | None, stop: CancelledError | None
    ) -> BaseException | None:
        """What a block ends with that had these errors, whose body has ended with `error`, and which others want to `stop`."""
        for one in errors:
            if isinstance(one, (KeyboardInterrupt, SystemExit)):
                return one
        last: BaseException
        if errors:
            last = BaseExceptionGroup(f"errors in {self._called}", errors)
        elif stop is not None or isinstance(error, GeneratorExit):
            return stop or error
        elif self.is_from_above and self._above is not None:
            if isinstance(error, Cancelled):
                return error
            last = self._above.error(self._called)
        else:
            return None
        # What came before is in it, or is how we have cancelled the body.
        last.__suppress_context__ = True
        return last
