cimport cython
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.flights cimport Flights
from bandstand.core.hot.pause cimport Pause

cdef bint THEIRS

cdef class Driver:
    cdef readonly object pool
    cdef readonly Flights kernel
    cdef public object task
    cdef public object park
    cdef public bint has_started
    cdef readonly Cell cell
    cdef readonly object job
    cdef readonly object context
    cdef public bint is_begun
    cdef public object yielded
    cdef readonly bint is_kept
    cdef public object stray
    cdef readonly Py_ssize_t serial
    cdef readonly bint is_listed
    cdef object _wake

    cpdef object take(self, Cell cell, object job, object context, bint is_begun, object yielded)
    @cython.locals(pause=Pause)
    cpdef bint keep(self, object yielded) except -1
    cpdef object end_pause(self, Pause pause)
    cpdef object look_again(self)
    cpdef object take_over(self)
    cpdef object hand_over(self)
    cpdef bint leave(self) except -1
    cpdef object release(self)
    cpdef object clear(self)
    cpdef object cancel(self)
    cpdef bint is_free(self) except -1
    cpdef bint is_busy(self)
