cimport cython

cdef Py_ssize_t SLACK

@cython.final
cdef class History:
    cdef list _times
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef readonly Py_ssize_t count

    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, times=list, history=History)
    cpdef History add(self, object now, object period_ms)
