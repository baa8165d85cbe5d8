cdef class Pause:
    cdef object _driver
    cdef bint _is_awaited
    cdef readonly bint _is_over
    cdef readonly bint is_ours

    cpdef bint done(self)
    cpdef bint cancel(self, object msg=*)
