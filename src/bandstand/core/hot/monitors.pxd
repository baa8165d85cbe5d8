cimport cython
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.life cimport Life

@cython.final
cdef class Monitor:
    cdef Cell watcher
    cdef Cell target

cdef class Monitors(Life):
    @cython.final
    @cython.locals(monitor=Monitor, target=Cell)
    cdef Monitor _watch(self, Cell watcher, ActorId actor)
    @cython.final
    @cython.locals(watcher=Cell)
    cdef bint _owns(self, Monitor monitor)
    @cython.final
    @cython.locals(watcher=Cell, target=Cell)
    cdef bint _unwatch(self, Monitor monitor) except -1
    @cython.locals(monitor=Monitor)
    cdef object _stop_watching(self, Cell cell)
    @cython.locals(monitor=Monitor, watcher=Cell)
    cdef object _tell_watchers(self, Cell cell, int reason, object cause)
    @cython.final
    cdef object _send_down(self, Cell watcher, object down)
