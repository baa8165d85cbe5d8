cimport cython
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.flights cimport Flights
from bandstand.core.hot.driver cimport Driver
from bandstand.core.hot.pause cimport Pause
from bandstand.core.hot.step cimport Step

cdef object PENDING
cdef bint HAS_EAGER_TASKS
cdef Py_ssize_t MOST_PARKED
cdef bint OURS
cdef bint BEGUN
cdef bint NOT_BEGUN

cdef class Drivers:
    cdef Flights _kernel
    cdef readonly object host
    cdef readonly object context
    cdef object _tasks
    cdef object _enter
    cdef object _leave
    cdef object _current
    cdef readonly bint is_closing
    cdef Step _step
    cdef list _free
    cdef readonly set _all

    @cython.locals(driver=Driver)
    cpdef object perform(self, Cell cell, object job, object context, bint is_inside)
    @cython.locals(driver=Driver)
    cpdef object perform_later(self, Cell cell, object job, object context)
    @cython.locals(cell=Cell)
    cpdef object advance(self, Driver driver, bint is_inside)
    @cython.final
    cdef object _step_for(self, Driver driver, object job, object context, bint is_inside)
    cpdef Pause pause(self, Driver driver)
    cpdef object begin_step(self, Driver driver, Cell cell)
    cpdef object end_step(self)
    cpdef bint has_ended(self, Cell cell)
    cpdef object resume(self, Cell cell, object verdict, object failure)
    @cython.final
    @cython.locals(driver=Driver)
    cdef Driver _free_driver(self)
    @cython.final
    cdef object _offer(self, Driver driver)
    @cython.locals(driver=Driver)
    cpdef object forget(self, Driver driver)
    @cython.locals(driver=Driver)
    cpdef object begin_closing(self)
    @cython.locals(driver=Driver)
    cpdef list busy(self)
