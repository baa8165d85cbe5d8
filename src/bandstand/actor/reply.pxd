cimport cython
from libc.stdint cimport int64_t
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.desk cimport Desk
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.wheel cimport Timer
from bandstand.actor.hot.asks cimport Asked, Asks
from bandstand.actor.hot.method cimport Method

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef int PENDING
cdef int ANSWERED
cdef int FAILED
cdef int CANCELLED
cdef int EXPIRED
cdef int LOST

cdef class Reply(Asked):
    cdef Desk kernel
    cdef object name
    cdef Method method
    cdef Py_ssize_t ms
    cdef Asks asks
    cdef int64_t asked_at
    cdef Cell asker
    cdef object stepper
    cdef Py_ssize_t serial
    cdef int state
    cdef object value
    cdef Timer timer
    cdef object alarm
    cdef list waiters

    cdef object lose(self, object error)
    cpdef object expire(self)
    cpdef bint cancel(self) except -1
    cpdef bint done(self) except -1
    cpdef object detach(self)
    cpdef object result(self)
    cpdef object add_waiter(self, object waiter)
    @cython.locals(kernel=Desk, passed=int64_t, left=int64_t)
    cdef object set_deadline(self)
    cdef object note_asker(self)
    @cython.locals(current=Cell, asker=Cell)
    cdef Cell present_asker(self)
    @cython.locals(links=list, left=list, steps=list, reply=Reply)
    cdef object refuse_cycle(self, Cell asker)
    @cython.locals(reply=Reply, method=Method)
    cdef bint gives_way(self, list links) except -1
    cpdef tuple account(self)
    @cython.locals(waits=dict, mine=list)
    cdef object forget(self, Cell asker)
    @cython.locals(timer=Timer)
    cdef object wake(self)
    cdef str target(self)
    cdef str called(self, Cell cell)
    @cython.locals(method=Method)
    cdef str what(self)

@cython.locals(cell=Cell)
cpdef Py_ssize_t depth_of(ActorId actor) except -1
@cython.locals(cell=Cell)
cpdef object interrupt_handler(ActorId actor, Asked asked)
