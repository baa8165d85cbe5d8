cimport cython
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.coroutines cimport TaskDriver
from bandstand.core.coroutines cimport TaskPool
from bandstand.core.hot.spawning cimport Spawning

cdef class Performing(Spawning):
    cdef public TaskPool _drivers
    cdef public bint _is_by_hand

    cpdef object _drivers_of_host(self)
    @cython.locals(drivers=TaskPool, was_abroad=bint)
    cpdef object _perform(self, ActorCell cell, object coroutine, object context)
    @cython.locals(drivers=TaskPool, was_abroad=bint)
    cpdef object _continue(self, object driver)
    @cython.locals(drivers=TaskPool, stepper=TaskDriver)
    cpdef object _pause(self)
