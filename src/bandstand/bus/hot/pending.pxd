cimport cython
from bandstand.bus.hot.purse cimport Purse
from bandstand.bus.hot.route cimport Route

@cython.final
cdef class Pending:
    cdef readonly object origin
    cdef readonly object frame
    cdef readonly Purse purse
    cdef readonly bint settles
    cdef readonly object parent
    cdef public int stage
    cdef public bint is_answered
    cdef public bint is_begun
    cdef public bint is_queued
    cdef public Route route
    cdef public Route counted
    cdef public object payload
    cdef public object timer
    cdef public int retries
    cdef public list joined
    cdef public object answer
    cdef public double until_ms
    cdef public Py_ssize_t size

@cython.final
cdef class Delivery:
    cdef readonly object frame
    cdef readonly Route route
    cdef readonly object payload
