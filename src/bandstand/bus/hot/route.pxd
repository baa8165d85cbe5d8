cimport cython
from bandstand.bus.hot.stand cimport Stand

@cython.final
cdef class Route:
    cdef readonly Stand seat
    cdef readonly object entry
    cdef readonly str type
    cdef readonly Py_ssize_t place
    cdef readonly object read
    cdef readonly object shape
    cdef readonly object method
    cdef readonly object reply
    cdef readonly object timeout_ms
    cdef readonly object retry
    cdef readonly bint remembers
