from bandstand.core.hot.desk cimport Desk
from bandstand.core.hot.ids cimport ActorId

cdef class Handle:
    cdef readonly Desk loop
    cdef readonly ActorId actor
    cdef readonly object name
    cdef readonly object asks
    cdef readonly Py_ssize_t ask_ms
    cdef readonly object place

    cpdef bint renew(self) except -1
    cpdef bint refresh(self) except -1
    cpdef object key(self)
