cimport cython

cdef int NO_ARGUMENTS
cdef int ONE_ARGUMENT
cdef int POSITIONAL_ARGUMENTS

@cython.final
cdef class Method:
    cdef readonly str owner
    cdef readonly str name
    cdef readonly object function
    cdef readonly int lane
    cdef readonly int shape
    cdef readonly Py_ssize_t arity
    cdef readonly bint is_ask
    cdef readonly bint is_async
    cdef readonly tuple raises
    cdef readonly Py_ssize_t limit
    cdef readonly bint awaits
    cdef readonly bint is_reentrant

    cpdef object call(self, object instance, object data)
