cimport cython
from libc.stdint cimport int64_t
from bandstand.actor.wait_graph cimport add_wait_of
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.kernel cimport Kernel
from bandstand.core.ids cimport ActorId
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.timer_wheel cimport Timer

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef int PENDING
cdef int ANSWERED
cdef int FAILED
cdef int CANCELLED
cdef int EXPIRED
cdef int LOST
cdef int ASK
cdef int ROOM
cdef int EXIT
cdef tuple REASONS
cdef dict CROSS_LOOP_WAITS
cdef int OTHER_LOOP
cdef int THIS_LOOP

cdef class ReplyCallback(DeliveryCallback):
    cdef public ActorId actor
    cdef public object relay
    cpdef object answer(self, object value)
    cpdef object fail(self, object error)
    cpdef bint is_cancelled(self) except -1
    cpdef bint done(self) except -1
    cpdef object redirect(self, ActorId actor)

@cython.final
cdef class AskTable:
    cdef public int64_t asked
    cdef public int64_t answered
    cdef public int64_t failed
    cdef public int64_t cancelled
    cdef public int64_t expired
    cdef public int64_t late
    cdef public int64_t unhandled
    cdef dict waits
    cdef dict other_threads
    cdef object lock
    cdef public object reentrancy

    @cython.locals(cell=ActorCell)
    cpdef list edges(self)
    cpdef list waits_of(self, ActorId actor)
    @cython.locals(cell=ActorCell, following=ActorCell, reply=ReplyCallback, path=list, paths=list)
    cdef list find_cycle(self, ActorCell asker, ActorCell target)

@cython.final
cdef class LocalReply(ReplyCallback):
    cdef int kind
    cdef int state
    cdef Kernel kernel
    cdef object name
    cdef object method
    cdef AskTable table
    cdef Py_ssize_t ms
    cdef int64_t asked_at
    cdef ActorCell asker
    cdef object driver
    cdef Py_ssize_t serial
    cdef object value
    cdef Timer timer
    cdef object alarm
    cdef list waiters
    cdef Timer waiter
    cdef object steps

    cdef object lose(self, object error)
    cpdef object expire(self)
    cpdef bint cancel(self) except -1
    cdef object end_wait(self, int state, object value)
    cdef object settle(self, int state, object value)
    @cython.locals(timer=Timer)
    cdef object wake(self)
    cpdef object result(self)
    @cython.locals(asker=ActorCell, waits=dict, kernel=Kernel, sibling=Kernel, cell=ActorCell, target=ActorCell, may_wait=bint, source=int)
    cdef tuple begin_wait(self)
    cpdef object add_waiter(self, object waiter)
    @cython.locals(kernel=Kernel, passed=int64_t, left=int64_t)
    cdef object set_deadline(self)
    cdef object note_asker(self)
    @cython.locals(current=ActorCell, asker=ActorCell)
    cdef ActorCell current_asker(self)
    cpdef object detach(self)
    @cython.locals(chain=list, left=list)
    cdef object refuse_cycle(self, ActorCell asker)
    @cython.locals(steps=list, reply=LocalReply)
    cdef object make_cycle_error(self, ActorCell asker, list chain)
    @cython.locals(reply=LocalReply)
    cdef bint break_cycle(self, list chain) except -1
    @cython.locals(waits=dict, mine=list)
    cdef object remove_edge(self, ActorCell asker)
    cpdef tuple wait_info(self)
    cdef str target(self)
    cdef str label(self, ActorCell cell)
    cdef str what(self)

# A new object of C has None and 0 in every field: a pending reply to an ask.
cdef inline LocalReply new_reply():
    return LocalReply.__new__(LocalReply)

@cython.locals(reply=LocalReply)
cpdef LocalReply wait_for_room(Kernel kernel, ActorId actor, object name, object method, AskTable table)
@cython.locals(reply=LocalReply, cell=ActorCell)
cpdef LocalReply wait_for_exit(Kernel kernel, ActorId actor, object name, AskTable table)
@cython.locals(cell=ActorCell)
cpdef object cancel_handler(ActorId actor, ReplyCallback callback)
@cython.locals(cell=ActorCell)
cpdef Py_ssize_t mailbox_depth(ActorId actor) except -1
