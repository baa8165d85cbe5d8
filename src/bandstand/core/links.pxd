cimport cython
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.kernel cimport Kernel

cdef int NORMAL
cdef int STOPPED
cdef int STOPPING
cdef object DOWN
cdef object EXIT

@cython.final
cdef class Monitor:
    cdef ActorCell watcher
    cdef ActorCell target

@cython.final
cdef class Links:
    cdef Kernel _kernel
    cdef list _pending
    cdef bint _is_ending

    @cython.locals(monitor=Monitor, target=ActorCell)
    cdef Monitor monitor(self, ActorCell watcher, ActorId actor)
    @cython.locals(watcher=ActorCell)
    cdef bint owns(self, Monitor monitor) except -1
    @cython.locals(watcher=ActorCell, target=ActorCell)
    cdef bint demonitor(self, Monitor monitor) except -1
    @cython.locals(monitor=Monitor)
    cdef object remove_monitors_of(self, ActorCell cell)
    @cython.locals(monitor=Monitor, watcher=ActorCell, watchers=dict)
    cdef object notify_monitors(self, ActorCell cell, int reason, object cause)
    cdef object _send_down(self, ActorCell watcher, object down)
    @cython.locals(peer=ActorCell)
    cdef object link(self, ActorCell cell, ActorId actor)
    cdef bint unlink(self, ActorCell cell, ActorCell peer) except -1
    @cython.locals(links=dict, actor=ActorId, peer=ActorCell)
    cdef object notify_links(self, ActorCell cell, int reason, object cause)
    cdef object _propagate(self, ActorCell cell, ActorId exited, int reason, object cause)
    @cython.locals(pending=list)
    cdef object _end_pending(self)
    cdef object _end_one(self, ActorCell cell, int reason, object error)
