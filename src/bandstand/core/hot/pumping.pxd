cimport cython
from libc.stdint cimport int64_t
from bandstand.core.hot.performing cimport Performing

cdef Py_ssize_t MAX_INLINE_TICKS
cdef int64_t MILLISECOND

cdef class Pumping(Performing):
    cdef public object _host
    cdef public bint _is_armed
    cdef public int64_t _mentioned
    cdef public object _on_park
    cdef public object _on_idle
    cdef public bint _until_idle

    cpdef object _work(self, object host)
    @cython.final
    @cython.locals(wait=int64_t)
    cdef object _sleep_or_go_on(self, object host)
    @cython.locals(wait=int64_t)
    cpdef object _rearm(self)
    cpdef object _rouse(self)
    cpdef object _be_called(self)
    cpdef object _end_ride(self, object host)
