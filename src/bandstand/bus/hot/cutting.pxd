cimport cython

cdef object OVERLONG
cdef Py_ssize_t BATCH

@cython.final
cdef class Cutter:
    cdef bint _has_ended
    cdef bint _is_skipping
    cdef Py_ssize_t _longest
    cdef object _partial
    cdef bytes _rest

    cpdef object feed(self, bytes chunk)
    cpdef object end(self)
    cpdef Py_ssize_t held(self) except -1
    cpdef object clear(self)
    @cython.locals(rest=bytes, lines=list, tail=bytes, is_all=bint, may_be_long=bint)
    cpdef list cut(self)
    cdef list _keep(self, bytes tail)
