cimport cython

from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.ids cimport ActorId

cdef class Gauge:
    cdef Cell cell
    cpdef Py_ssize_t depth(self) except -1
    cpdef object forget(self)

@cython.locals(gauge=Gauge)
cpdef Gauge gauge_of(ActorId actor)
