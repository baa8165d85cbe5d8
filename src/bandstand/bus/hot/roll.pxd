cimport cython
from bandstand.bus.hot.fields cimport data_of, id_of, metadata_of
from bandstand.bus.hot.pending cimport Pending

cdef int DONE
cdef object NOBODY

@cython.final
cdef class Roll:
    cdef Py_ssize_t _most
    cdef Py_ssize_t _most_bytes
    cdef double _keep_ms
    cdef dict _known
    cdef dict _repeats
    cdef list _ring
    cdef Py_ssize_t _start
    cdef Py_ssize_t _count
    cdef readonly Py_ssize_t held_bytes

    cpdef bint enter(self, Pending pending) except -1
    cpdef Pending find(self, str name)
    @cython.locals(other=Pending)
    cpdef object take_over(self, Pending pending)
    cpdef Py_ssize_t count_open(self) except -1
    cpdef list open_requests(self)
    cpdef object leave(self, Pending pending)
    @cython.locals(size=Py_ssize_t, place=Py_ssize_t)
    cpdef object keep(self, Pending pending, object answer, double now_ms)
    @cython.locals(oldest=Pending)
    cpdef object expire(self, double now_ms)
    @cython.locals(oldest=Pending, start=Py_ssize_t)
    cdef object _forget(self)
