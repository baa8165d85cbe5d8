cimport cython

@cython.final
cdef class CreditLimit:
    cdef readonly Py_ssize_t limit
    cdef readonly bint remembers
    cdef public Py_ssize_t used
