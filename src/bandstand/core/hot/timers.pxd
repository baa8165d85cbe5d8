cimport cython
from libc.stdint cimport int64_t
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.hot.links cimport Links
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.timer_wheel cimport TimerQueue, Timer, TimerWheel

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

cdef int DATA
cdef int64_t FAR
cdef int GONE
cdef int64_t MILLISECOND
cdef int64_t NEVER
cdef int OVERDUE
cdef int SYSTEM
cdef object ZERO
cdef object DATA_LANE
cdef Py_ssize_t LOOK_AFTER

cdef class Timers(Links):
    cdef object _now
    cdef bint _is_real
    cdef int64_t _epoch
    cdef TimerWheel _wheel
    cdef public int64_t _armed
    cdef int64_t _timers_set
    cdef int64_t _timers_fired
    cdef int64_t _timers_cancelled
    cdef int64_t _timers_released

    cpdef object _rearm(self)
    @cython.final
    cdef int64_t _elapsed(self) except? -1
    @cython.final
    @cython.locals(cell=ActorCell)
    cdef Timer _set_timer(self, object target, object ms, object data, object tag, object lane, object sender)
    @cython.final
    cdef int _checked(self, object tag, object lane) except -1
    @cython.final
    cdef object _check_sender(self, object sender)
    @cython.final
    cdef int64_t _checked_delay(self, object ms) except -1
    @cython.final
    cdef Timer _start_timer(self, ActorCell cell, int64_t ms, int lane, object data, object tag, object sender)
    @cython.final
    @cython.locals(timer=Timer)
    cdef Timer _start_timer_at(self, ActorCell cell, int64_t deadline, int lane, object data, object tag, object sender)
    @cython.final
    @cython.locals(elapsed=int64_t, deadline=int64_t)
    cdef int64_t _deadline(self, int64_t ms) except -1
    @cython.locals(timer=Timer, deadline=int64_t)
    cpdef Timer _call_after(self, int64_t ms, object callback, DeliveryCallback heir=*)
    cpdef object _cancel_call(self, Timer timer)
    @cython.final
    @cython.locals(cell=ActorCell, known=Timer)
    cdef bint _cancel(self, object timer) except -1
    @cython.final
    @cython.locals(queue=TimerQueue)
    cdef object _withdraw(self, ActorCell cell, Timer timer)
    @cython.locals(timer=Timer, waiter=DeliveryCallback)
    cdef object _release_timers(self, ActorCell cell)
    @cython.final
    cdef int64_t _pending_timers(self)
    @cython.final
    @cython.locals(wheel=TimerWheel, timer=Timer, count=Py_ssize_t)
    cdef bint _fire(self, int64_t elapsed, int64_t until) except -1
    @cython.final
    @cython.locals(cell=ActorCell, lane=int, queue=TimerQueue, queues=list)
    cdef object _deliver(self, Timer timer)
    @cython.final
    @cython.locals(queue=TimerQueue, queues=list)
    cdef object _hold(self, ActorCell cell, Timer timer)
    @cython.final
    @cython.locals(timer=Timer)
    cdef Timer _wait_for_room(self, ActorCell cell, int lane, object data, object tag, object sender, DeliveryCallback waiter)
    @cython.final
    @cython.locals(timer=Timer)
    cdef Timer _await_end(self, ActorCell cell, DeliveryCallback waiter)
    @cython.final
    @cython.locals(cell=ActorCell)
    cdef bint _stop_waiting(self, Timer timer) except -1
    @cython.final
    @cython.locals(landed=bint, waiter=DeliveryCallback)
    cdef bint _land(self, ActorCell cell, Timer timer) except -1
    @cython.final
    @cython.locals(queues=list, queue=TimerQueue, timer=Timer, following=Timer, left=Py_ssize_t)
    cdef object _land_overdue(self, ActorCell cell)
