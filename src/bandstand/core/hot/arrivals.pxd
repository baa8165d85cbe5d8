cimport cython
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.timers cimport Timers

cdef int STOPPED

cdef class Arrivals(Timers):
    cdef object _inbox
    cdef bint _armed_inbox
    cdef public bint _down
    cdef object _lock

    cpdef object _wake_from_afar(self)
    @cython.final
    cdef bint _promise(self, Cell cell, int lane) except -1
    @cython.final
    cdef bint _add_surplus(self, Cell cell) except -1
    @cython.final
    cdef object _refused_afar(self, object target)
    @cython.final
    cdef object _full_afar(self, Cell cell, int lane)
    cpdef object _drain(self)
    @cython.final
    @cython.locals(cell=Cell, lane=int, promised=bint)
    cdef object _arrive(self, tuple arrival)
