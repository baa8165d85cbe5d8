"""The cast of a troupe: what its class declares. `Troupe` derives from this, and plays it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

from bandstand.errors import InvalidArgument
from bandstand.pod.manifest import Manifest, read_troupe
from bandstand.pod.spec import PodSpec, TroupeSpec
from bandstand.pod.travel import check_travel

__all__ = ("Cast",)


class Cast:
    """A class whose attributes say what plays, and where.

    What a class inherits it has, too, in the order of declaration, that of its base first; it may declare a role, or the options of a
    pod, anew under the same name.

    Raises:
        BadDeclaration: when a class is made that contradicts itself; names class, pod and role.
    """

    carries: ClassVar[tuple[ContextVar[Any], ...]] = ()  # of whatever they hold
    """Context variables that travel with messages to other processes. Between threads all of them do."""
    kubelet_core: ClassVar[int | None] = None
    """The core that the kubelet's thread, and so every cooperative pod, is pinned to; None for any."""
    stop_ms: ClassVar[float] = 30_000.0
    """How long the whole troupe has to stop, in milliseconds; then what is left is killed."""

    _manifest: ClassVar[Manifest] = Manifest(TroupeSpec(name="Cast"))

    def __init_subclass__(cls, **options: Any) -> None:  # whatever a base of the user's takes
        super().__init_subclass__(**options)
        cls._manifest = read_troupe(cls)

    @classmethod
    def layout(cls) -> dict[str, PodSpec]:
        """The declared pods by name: alter them, and pass them on as `layout=`."""
        return {pod.name: pod for pod in cls._manifest.spec.pods}

    @classmethod
    def _laid_out(cls, layout: Mapping[str, PodSpec] | None) -> Manifest:
        """What plays with this layout, None for the declared one.

        Raises:
            InvalidArgument: the layout has no sense.
        """
        return cls._manifest if layout is None else cls._manifest.laid_out(layout)

    @classmethod
    def _planned(cls, layout: Mapping[str, PodSpec] | None) -> Manifest:
        """The same, checked to the end, with the troupes inside: it can be started.

        Raises:
            InvalidArgument: there is nothing to play, the layout has no sense, or a process pod could not be made in a process.
        """
        manifest = cls._laid_out(layout)
        if not manifest.spec.pods and not manifest.nested:
            raise InvalidArgument(
                f"troupe {cls.__qualname__!r} has no pods: declare one, with pod(...).of(...)"
            )
        check_travel(manifest.spec, cls)
        for inner in manifest.nested:
            inner.troupe._planned(inner.layout)  # noqa: SLF001  # its own kind
        return manifest

    def _handle(self, name: str) -> Any:  # typed by the declaration
        """The handle of an exposed role, for the program outside."""
        raise NotImplementedError  # whoever plays it knows

    def _nested(self, name: str) -> Any:  # likewise
        """The troupe inside it of that name."""
        raise NotImplementedError  # likewise
