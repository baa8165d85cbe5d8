cimport cython
from libc.stdint cimport int64_t
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.delivery cimport DeliveryCallback

cdef class Asked(DeliveryCallback):
    cdef public ActorId actor
    cdef public object relay
    cpdef object answer(self, object value)
    cpdef object fail(self, object error)
    cpdef bint is_withdrawn(self) except -1
    cpdef bint done(self) except -1
    cpdef object moved(self, ActorId actor)

@cython.final
cdef class Asks:
    cdef public int64_t asked
    cdef public int64_t answered
    cdef public int64_t failed
    cdef public int64_t cancelled
    cdef public int64_t expired
    cdef public int64_t late
    cdef public int64_t unhandled
    cdef dict waits
    cdef dict afar
    cdef object lock
    cdef public object serve
    cdef public object recall

    @cython.locals(cell=ActorCell)
    cpdef list edges(self)

    cpdef list waits_of(self, ActorId actor)

    @cython.locals(cell=ActorCell, following=ActorCell, reply=Asked, path=list, paths=list)
    cdef list cycle(self, ActorCell asker, ActorCell target)
