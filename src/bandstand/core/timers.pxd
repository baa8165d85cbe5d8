cimport cython
from libc.stdint cimport int64_t
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.timer_wheel cimport TimerQueue, Timer, TimerWheel
from bandstand.core.kernel cimport Kernel

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    cdef struct timespec:
        time_t tv_sec
        long tv_nsec
    int clock_gettime(int, timespec*)
    int CLOCK_MONOTONIC

cdef inline int64_t monotonic_now() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1000000000 + now.tv_nsec

cdef Py_ssize_t CLOCK_INTERVAL
cdef int64_t FAR
cdef int GONE
cdef int64_t MILLISECOND
cdef int64_t NEVER
cdef int NORMAL
cdef int OVERDUE
cdef int SYSTEM

@cython.final
cdef class Timers:
    cdef Kernel _kernel
    cdef object _now
    cdef bint _is_real_clock
    cdef int64_t _epoch
    cdef readonly TimerWheel wheel
    cdef public int64_t armed_for
    cdef readonly int64_t started
    cdef readonly int64_t fired
    cdef readonly int64_t cancelled
    cdef readonly int64_t released

    cdef int64_t elapsed(self) except? -1
    cpdef double elapsed_ms(self) except? -1
    @cython.locals(elapsed=int64_t, deadline=int64_t)
    cdef int64_t deadline_after(self, int64_t ms) except -1
    @cython.locals(soonest=int64_t)
    cpdef int64_t next_wakeup(self) except? -2
    cdef Timer start(self, ActorCell cell, int64_t ms, int lane, object data, object tag, object sender)
    @cython.locals(timer=Timer)
    cdef Timer start_at(self, ActorCell cell, int64_t deadline, int lane, object data, object tag, object sender)
    @cython.locals(cell=ActorCell, known=Timer)
    cpdef bint cancel(self, object timer) except -1
    cpdef int64_t pending(self)
    @cython.locals(timer=Timer, waiter=DeliveryCallback)
    cdef object release_all(self, ActorCell cell)
    @cython.locals(timer=Timer, deadline=int64_t)
    cpdef Timer call_after(self, int64_t ms, object callback, DeliveryCallback on_loop_exit=*)
    cpdef object cancel_call(self, Timer timer)
    @cython.locals(timer=Timer, callback=DeliveryCallback)
    cpdef object end_calls(self)
    @cython.locals(timer=Timer)
    cdef Timer wait_for_room(self, ActorCell cell, int lane, object data, object tag, object sender, DeliveryCallback waiter)
    @cython.locals(timer=Timer)
    cdef Timer watch_exit(self, ActorCell cell, DeliveryCallback callback)
    @cython.locals(cell=ActorCell)
    cpdef bint stop_waiting(self, Timer timer) except -1
    @cython.locals(wheel=TimerWheel, timer=Timer, count=Py_ssize_t)
    cdef bint fire_due(self, int64_t elapsed, int64_t until) except -1
    @cython.locals(queues=list, queue=TimerQueue, timer=Timer, following=Timer, left=Py_ssize_t)
    cdef object deliver_overdue(self, ActorCell cell)
    @cython.locals(cell=ActorCell, lane=int, queue=TimerQueue, queues=list)
    cdef object _fire(self, Timer timer)
    @cython.locals(is_in=bint, waiter=DeliveryCallback, kernel=Kernel)
    cdef bint _deliver(self, ActorCell cell, Timer timer) except -1
    @cython.locals(queue=TimerQueue, queues=list)
    cdef object _queue_overdue(self, ActorCell cell, Timer timer)
    cdef object _schedule(self, Timer timer, int64_t deadline)
    @cython.locals(queue=TimerQueue)
    cdef object _withdraw(self, ActorCell cell, Timer timer)
