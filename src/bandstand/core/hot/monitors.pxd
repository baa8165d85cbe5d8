cimport cython
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.hot.life cimport Life

@cython.final
cdef class Monitor:
    cdef ActorCell watcher
    cdef ActorCell target

cdef class Monitors(Life):
    @cython.final
    @cython.locals(monitor=Monitor, target=ActorCell)
    cdef Monitor _watch(self, ActorCell watcher, ActorId actor)
    @cython.final
    @cython.locals(watcher=ActorCell)
    cdef bint _owns(self, Monitor monitor)
    @cython.final
    @cython.locals(watcher=ActorCell, target=ActorCell)
    cdef bint _unwatch(self, Monitor monitor) except -1
    @cython.locals(monitor=Monitor)
    cdef object _stop_watching(self, ActorCell cell)
    @cython.locals(monitor=Monitor, watcher=ActorCell)
    cdef object _tell_watchers(self, ActorCell cell, int reason, object cause)
    @cython.final
    cdef object _send_down(self, ActorCell watcher, object down)
