cimport cython
from bandstand.core.hot.calls cimport Calls
from bandstand.core.hot.cell cimport Cell

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
    cpdef object _suspend(self, Cell cell, object driver)
    cpdef object _unsuspend(self, Cell cell)
    cpdef object _go_on(self, Cell cell)
    cpdef object _go_on_now(self, Cell cell)
    cpdef object _be_called(self)
    cpdef object _begin_step(self, Cell cell)
    cpdef object _end_step(self)
    cpdef object _forget_current(self)
    cpdef bint _has_ended(self, Cell cell)
    cpdef bint _is_stepping(self)
    cpdef object _resume(self, Cell cell, object verdict, object error, bint was_cancelled)
    @cython.locals(cell=Cell, names=list)
    cpdef list _abandon(self)
