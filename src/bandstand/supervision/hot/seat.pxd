cimport cython
from bandstand.core.ids cimport ActorId

cdef object DOWN
cdef object UP
cdef object WAITING

@cython.final
cdef class Seat:
    cdef readonly object name
    cdef readonly object spec
    cdef readonly bint is_supervisor
    cdef readonly bint is_temporary
    cdef public Py_ssize_t place
    cdef readonly object run
    cdef public object init
    cdef readonly tuple fates
    cdef readonly object backoff
    cdef readonly bint keeps
    cdef public Py_ssize_t cap
    cdef readonly object context
    cdef public ActorId actor
    cdef public object phase
    cdef public object supervisor
    cdef public Py_ssize_t restarts
    cdef public bint has_run
    cdef public double stored_ms
    cdef public double started_at
    cdef public bint is_requested
    cdef public bint is_added
    cdef public bint was_held
    cdef public bint is_held
    cdef public bint must_end
    cdef public bint comes_back
    cdef public bint is_again
    cdef public bint is_gated
    cdef public object timer
    cdef public Py_ssize_t token
    cdef public object estate
    cdef public object followers
