cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class MessageCounters:
    cdef readonly int64_t accepted
    cdef readonly int64_t handled
    cdef readonly int64_t refused
    cdef readonly int64_t dead
    cdef readonly int64_t dead_system
    cdef readonly int64_t dropped
    cdef readonly int64_t dropped_system
    cdef readonly int64_t stashed

    cpdef int64_t waiting(self)
    cpdef bint is_settled(self)
