cimport cython
from bandstand.core.hot.calls cimport Calls
from bandstand.core.mailbox cimport ActorCell

cdef int INIT
cdef int NORMAL
cdef int STOPPED
cdef int STOPPING
cdef object OK_VERDICT
cdef bint FINAL

cdef class Flights(Calls):
    cdef readonly object _home_context
    cdef public object _ride_context
    cdef public bint _may_inline
    cdef public object _stepper
    cdef public Py_ssize_t _paused

    cpdef object _pause(self)
    cpdef object _suspend(self, ActorCell cell, object driver)
    cpdef object _unsuspend(self, ActorCell cell)
    cpdef object _go_on(self, ActorCell cell)
    cpdef object _go_on_now(self, ActorCell cell)
    cpdef object _be_called(self)
    cpdef object _begin_step(self, ActorCell cell)
    cpdef object _end_step(self)
    cpdef object _forget_current(self)
    cpdef bint _has_ended(self, ActorCell cell)
    cpdef bint _is_stepping(self)
    cpdef object _resume(self, ActorCell cell, object verdict, object error, bint was_cancelled)
    @cython.locals(cell=ActorCell, names=list)
    cpdef list _abandon(self)
