cimport cython
from libc.stdint cimport int64_t

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef extern from "Python.h":
    void PyErr_SetObject(object kind, object value) noexcept

# Set the return value of an iterator that ends with `raise StopIteration`, which costs nothing in C. Most values can be set as
# they are; a tuple or an exception must be wrapped, or Python would take it for the arguments of StopIteration, or for the exception.
cdef inline void return_value(object value) noexcept:
    if isinstance(value, (tuple, BaseException)):
        value = StopIteration(value)
    PyErr_SetObject(StopIteration, value)

cdef int FRESH
cdef int WAITING
cdef int DONE
cdef int CLOSED
cdef int EXPIRED
cdef int CANCELLED
cdef int LEFT
cdef int SPENT
cdef int MUST_GROW
cdef bint SEND
cdef bint RECEIVE
cdef object EMPTY
cdef object END
cdef double NO_TIMEOUT
cdef double MIN_SLEEP
cdef Py_ssize_t NEVER_FULL
cdef Py_ssize_t MIN_BUFFER_SIZE
cdef Py_ssize_t SHRINK_ABOVE

cpdef double checked_ms(object timeout, object name=*) except? -1
cpdef object check_token(object token)

cdef class Waiter:
    cdef public int state
    cdef public double timeout_ms
    cdef public object token
    cdef object timer
    cdef object host
    cdef object future
    cdef unsigned long thread_id
    cdef object thread_lock

    cpdef bint try_now(self) except -1
    cpdef bint enqueue(self) except -1
    cpdef bint withdraw(self, int state) except -1
    cpdef object undo(self)
    cpdef object result(self)
    cpdef object close(self)
    cdef object suspend(self)
    cdef object arm(self)
    cdef object disarm(self)
    cdef object block(self)
    @cython.locals(seconds=double)
    cdef double sleep_seconds(self, double until) except -2
    cpdef object expire(self)
    cpdef object on_cancelled(self)
    cpdef object abandon(self)
    cpdef object wake(self)
    cpdef object complete_future(self)
    cdef bint is_task_cancelled(self) except -1
    cdef bint is_unreachable(self) except -1
    cdef object already_used(self)

@cython.final
cdef class WaiterQueue:
    cdef ChannelOp first
    cdef ChannelOp last
    cdef readonly Py_ssize_t count

    @cython.locals(last=ChannelOp)
    cdef object append(self, ChannelOp op)
    @cython.locals(previous=ChannelOp, following=ChannelOp)
    cdef object remove(self, ChannelOp op)

cdef class ChannelOp(Waiter):
    cdef readonly ChannelCore channel
    cdef readonly bint is_send
    cdef bint ends_iteration
    cdef bint is_in_select
    cdef public object item
    cdef int64_t serial
    cdef SelectOp select
    cdef WaiterQueue queue
    cdef ChannelOp previous
    cdef ChannelOp following

    cdef object prepare(self, ChannelCore channel, bint is_send, object item, double timeout_ms, object token)
    @cython.locals(channel=ChannelCore, state=int)
    cpdef bint try_now(self) except -1
    @cython.locals(channel=ChannelCore)
    cpdef bint enqueue(self) except -1
    cpdef bint withdraw(self, int state) except -1
    @cython.locals(channel=ChannelCore, queue=WaiterQueue)
    cdef bint withdraw_locked(self, int state) except -1
    cpdef object undo(self)
    cdef object take_received_locked(self)
    @cython.locals(queue=WaiterQueue, select=SelectOp)
    cdef object complete_locked(self, int state)
    @cython.locals(state=int)
    cpdef object result(self)
    cpdef object error(self, int state)
    @cython.locals(select=SelectOp)
    cpdef object wake(self)

cdef class SelectOp(Waiter):
    cdef readonly list ops
    cdef readonly ChannelOp chosen
    cdef Py_ssize_t open_count
    cdef bint until_any_closes

    cdef object check(self, ChannelOp op)
    @cython.locals(adopted=ChannelOp)
    cdef object adopt(self, ChannelOp op)
    cdef list in_fair_order(self)
    @cython.locals(op=ChannelOp)
    cpdef bint try_now(self) except -1
    @cython.locals(op=ChannelOp)
    cpdef bint enqueue(self) except -1
    cdef bint complete_locked(self, ChannelOp op, int state) except -1
    @cython.locals(is_withdrawn=bint)
    cpdef bint withdraw(self, int state) except -1
    cdef bint withdraw_locked(self, int state) except -1
    @cython.locals(op=ChannelOp)
    cdef object withdraw_ops_locked(self, int state)
    @cython.locals(chosen=ChannelOp)
    cpdef object undo(self)
    @cython.locals(op=ChannelOp)
    cdef object release_ops(self)
    @cython.locals(chosen=ChannelOp, state=int)
    cpdef object result(self)
    cpdef object error(self, int state)

@cython.final
cdef class SelectCounter:
    cdef int64_t completed

cdef SelectCounter SELECTS

cpdef int64_t last_selected(ChannelOp op) except -1

@cython.final
cdef class ElementBuffer:
    cdef list slots
    cdef list returned
    cdef Py_ssize_t size
    cdef Py_ssize_t head
    cdef Py_ssize_t count

    @cython.locals(size=Py_ssize_t, slots=list)
    cdef object grow(self)
    @cython.locals(slots=list)
    cdef object shrink(self)
    cdef object append(self, object item)
    @cython.locals(at=Py_ssize_t)
    cdef object pop_first(self)
    @cython.locals(at=Py_ssize_t, step=Py_ssize_t)
    cdef object insert_returned(self, object item, int64_t serial)
    @cython.locals(at=Py_ssize_t)
    cdef object replace_last(self, object item)
    cdef object last(self)
    @cython.locals(at=Py_ssize_t, old=list)
    cdef object grow_locked(self, list slots, Py_ssize_t size)
    @cython.locals(old=list)
    cdef object shrink_locked(self, list slots)

cdef class ChannelCore:
    cdef readonly Py_ssize_t capacity
    cdef readonly bint conflates
    cdef readonly object label
    cdef readonly bint closed
    cdef ElementBuffer buffer
    cdef readonly WaiterQueue senders
    cdef readonly WaiterQueue receivers
    cdef WaiterQueue completed
    cdef readonly int64_t sent
    cdef readonly int64_t received
    cdef readonly int64_t conflated
    cdef readonly int64_t refused
    cdef readonly int64_t timed_out
    cdef readonly int64_t cancelled
    cdef readonly Py_ssize_t peak
    cdef int64_t last_select_send
    cdef int64_t last_select_receive

    @cython.locals(op=ChannelOp, ms=double)
    cdef ChannelOp make_op(self, bint is_send, object item, object timeout, object token)
    @cython.locals(state=int)
    cdef int offer(self, object item, SelectOp select) except -2
    cdef object take(self, SelectOp select)
    @cython.locals(is_settled=bint)
    cdef object enqueue(self, ChannelOp op)
    @cython.locals(is_back=bint)
    cdef object put_back(self, object item, int64_t serial)
    @cython.locals(first=ChannelOp, waiter=Waiter)
    cdef object drop_stale(self, WaiterQueue queue, bint and_unreachable)
    @cython.locals(op=ChannelOp)
    cdef object wake_completed(self)
    @cython.locals(op=ChannelOp)
    cdef ChannelOp next_completed_locked(self)
    @cython.locals(receiver=ChannelOp)
    cdef int push_locked(self, object item, SelectOp select) except -2
    @cython.locals(sender=ChannelOp)
    cdef object pull_locked(self, SelectOp select)
    @cython.locals(sender=ChannelOp)
    cdef ChannelOp first_sender_locked(self, SelectOp select)
    @cython.locals(sender=ChannelOp)
    cdef object refill_locked(self, SelectOp select)
    @cython.locals(receiver=ChannelOp)
    cdef bint put_back_locked(self, object item, int64_t serial) except -1
    @cython.locals(select=SelectOp, state=int)
    cdef bint enqueue_locked(self, ChannelOp op) except -1
    @cython.locals(op=ChannelOp)
    cdef bint close_locked(self) except -1
    @cython.locals(
        sent=int64_t, received=int64_t, conflated=int64_t, buffered=Py_ssize_t, refused=int64_t, timed_out=int64_t,
        cancelled=int64_t, senders=Py_ssize_t, receivers=Py_ssize_t, peak=Py_ssize_t, closed=bint,
    )
    cdef tuple counters_locked(self)
