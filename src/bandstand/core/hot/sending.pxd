cimport cython
from bandstand.core.hot.arrivals cimport Arrivals
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.mailbox cimport Ring, push

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef int ACCEPTED
cdef int OTHER_THREAD
cdef int NO_ACTOR
cdef int FULL
cdef int STOPPING
cdef object DATA_LANE
cdef object ZERO

cdef class Sending(Arrivals):
    cdef public object _porter

    @cython.final
    cdef bint _post_fast(self, object target, object data, object tag, object lane, object sender) except -1
    @cython.final
    @cython.locals(cell=ActorCell, ring=Ring)
    cdef bint _slip_in(self, ActorId actor, object data, object tag, object sender) except -1
    @cython.final
    cdef bint _is_afar(self)
    @cython.final
    @cython.locals(cell=ActorCell)
    cdef int _post_known(self, ActorId actor, int lane, object data, object tag, object sender) except -1
