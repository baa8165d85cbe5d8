cimport cython

from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId

cdef class Gauge:
    cdef ActorCell cell
    cpdef Py_ssize_t depth(self) except -1
    cpdef object forget(self)

@cython.locals(gauge=Gauge)
cpdef Gauge gauge_of(ActorId actor)
