cimport cython
from bandstand.core.ids cimport ActorId
from bandstand.core.mailbox cimport ActorCell

@cython.final
cdef class CrossLoopWait:
    cdef ActorId _asker
    cdef object _callback

    @cython.locals(waits=list)
    cpdef object end(self)

@cython.locals(wait=CrossLoopWait)
cpdef CrossLoopWait add_wait_of(ActorId asker, object callback, object method, bint may_wait)
@cython.locals(cell=ActorCell)
cpdef str actor_label(ActorId actor)
