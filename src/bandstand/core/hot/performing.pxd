cimport cython
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.driver cimport Driver
from bandstand.core.hot.drivers cimport Drivers
from bandstand.core.hot.spawning cimport Spawning

cdef class Performing(Spawning):
    cdef public Drivers _drivers
    cdef public bint _is_by_hand

    cpdef object _drivers_of_host(self)
    @cython.locals(drivers=Drivers, was_abroad=bint)
    cpdef object _perform(self, Cell cell, object coroutine, object context)
    @cython.locals(drivers=Drivers, was_abroad=bint)
    cpdef object _continue(self, object driver)
    @cython.locals(drivers=Drivers, stepper=Driver)
    cpdef object _pause(self)
