"""Where the actors run: one word for each pod."""

from __future__ import annotations

from bandstand.pod import RestartPolicy, ThreadModel, Troupe, WhenDown, directory, pod
from examples.studio.actors import (
    Display,
    DisplayPeers,
    Engine,
    EnginePeers,
    Log,
    Metrics,
    Settings,
    Vsync,
    VsyncPeers,
)

FPS = 60
# The saboteur kills the pods often, so the limit is high.
OFTEN = 50


class Studio(Troupe):
    # On a thread of its own, so that nothing delays it.
    vsync = pod(restart=RestartPolicy.ALWAYS, max_restarts=OFTEN).expose(Vsync, directory(VsyncPeers), FPS)
    # In a process of its own. While it is down, a frame fails at once, because an old frame is useless.
    engine_pod = pod(
        thread=ThreadModel.PROCESS,
        restart=RestartPolicy.ON_FAILURE,
        max_restarts=OFTEN,
        when_down=WhenDown.FAIL,
    )
    engine = engine_pod.expose(Engine, directory(EnginePeers))
    settings = engine_pod.of(Settings, 0.1)
    # On the thread that calls `play()`. When it ends, the troupe stops.
    display = pod(thread=ThreadModel.MAIN).expose(Display, directory(DisplayPeers))
    # Pods with little work share the kubelet's thread.
    telemetry = pod(thread=ThreadModel.COOPERATIVE, restart=RestartPolicy.ON_FAILURE)
    metrics = telemetry.expose(Metrics)
    log = telemetry.expose(Log)
