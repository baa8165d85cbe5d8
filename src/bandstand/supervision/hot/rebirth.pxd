cimport cython
from bandstand.core.hot.births cimport Births
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.context cimport ActorContext
from bandstand.supervision.hot.history cimport History
from bandstand.supervision.hot.planning cimport Plan, plan_restart
from bandstand.supervision.hot.seat cimport Seat

cdef int RUNNING
cdef int STOPPED
cdef int SYSTEM
cdef double NEVER
cdef object RESTART
cdef object DOWN
cdef object STARTING
cdef object UP
cdef object WAITING
cdef object CLOSED
cdef object CLOSING
cdef object OPENING
cdef object ONE_FOR_ONE

cdef class Rebirth:
    cdef readonly Births _loop
    cdef readonly object _name
    cdef public ActorId _me
    cdef public object _stage
    cdef public object _strategy
    cdef readonly object _intensity
    cdef public History _history
    cdef readonly object _failures
    cdef readonly dict _by_actor
    cdef public Seat _launching
    cdef public object _init_error
    cdef public bint _is_loose
    cdef public bint _is_busy

    @cython.final
    cdef object _hear(self, ActorContext turn, object data)
    @cython.final
    @cython.locals(seat=Seat)
    cdef object _on_exit(self, object exit)
    @cython.locals(now=double, chance=double, plan=Plan)
    cpdef object _judge(self, Seat seat, tuple failure)
    @cython.locals(actor=ActorId, estate=ActorCell)
    cpdef object _start(self, Seat seat)
    cpdef object _started(self, Seat seat, ActorId actor)
