from libc.stdint cimport int64_t
cimport cython

cdef object ALPHABET
cdef int TAIL_BITS
cdef int64_t MS
cdef tuple PAIRS

@cython.final
cdef class IdMaker:
    cdef object _draw
    cdef int64_t _end_ns
    cdef str _head
    cdef object _head_number
    cdef object _now_ns
    cdef int64_t _tail
    cdef readonly int64_t last_ms

    @cython.locals(now=int64_t, tail=int64_t)
    cpdef str make(self)
    cpdef int64_t now_ms(self) except? -1
    cdef int64_t _begin(self, int64_t now) except? -1
    cdef object _set_head(self, object number)
