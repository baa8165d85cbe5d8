cimport cython
from libc.stdint cimport int64_t
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.hot.flights cimport Flights
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.mailbox cimport Ring, pop
from bandstand.core.context cimport ActorContext
from bandstand.core.timer_wheel cimport Timer

cdef extern from "Python.h":
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1

cdef int DATA
cdef int FAIL_REASON
cdef Py_ssize_t MAX_INLINE_TICKS
cdef int64_t MILLISECOND
cdef int64_t NEVER
cdef int NORMAL
cdef int PANIC
cdef object IO
cdef object ELEMENT

cdef class Desk(Flights):
    cdef readonly bint _is_inline
    cdef public Py_ssize_t _inline_left
    cdef int64_t _inline_since

    cpdef bint _tick_inline(self) except -1
    cpdef object _break(self, object error)
    cpdef bint _has_ready(self)
    cpdef bint _is_quiet(self)
    cpdef bint _is_idle(self)
    @cython.locals(soonest=int64_t)
    cpdef int64_t _wake_in(self) except? -2
    @cython.locals(cell=ActorCell)
    cpdef object _end_all(self)
    @cython.final
    @cython.locals(ring=Ring)
    cdef Ring _ahead(self, ActorCell cell, ActorContext turn)
    @cython.final
    cdef object _take_ahead(self, ActorCell cell, ActorContext turn, Ring ring)
    @cython.final
    @cython.locals(taken=Py_ssize_t)
    cdef Py_ssize_t _take_alike(self, ActorCell cell, ActorContext turn, list items, Py_ssize_t most, object strange) except -1
    @cython.locals(cell=ActorCell)
    cpdef object _begin_watch(self, object owner)
    cpdef ActorId _actor_of(self, ActorCell cell)
    @cython.locals(cell=ActorCell)
    cpdef object _end_watch(self, ActorId actor)
    @cython.locals(cell=ActorCell)
    cpdef object _send_io(self, ActorId actor, object event, object watch)
    @cython.locals(timer=Timer, heir=DeliveryCallback)
    cpdef object _bequeath_calls(self)
    cpdef bint _is_stranded(self) except -1
    @cython.locals(cell=ActorCell)
    cpdef object _prod(self, ActorId actor)
    @cython.locals(cell=ActorCell)
    cpdef bint _is_current(self, ActorId actor) except -1
    @cython.locals(cell=ActorCell)
    cpdef Timer _mourn(self, ActorId actor, DeliveryCallback mourner)
    cpdef object _stop_mourning(self, Timer timer)
    @cython.locals(cell=ActorCell)
    cpdef tuple _at_hand(self)
    @cython.locals(cell=ActorCell, turn=ActorContext)
    cpdef object _tag_of(self, ActorId actor)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef bint _is_at_rest(self, object target) except -1

cdef inline object tick_inside(Desk desk, object context):
    PyContext_Enter(context)
    try:
        desk._tick()
    finally:
        PyContext_Exit(context)
