cimport cython
from libc.stdint cimport int64_t
from bandstand.core.hot.turn cimport Turn
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.mailbox cimport Mailbox
from bandstand.core.hot.wheel cimport Timer

cdef int INIT
cdef int UNTIMED

@cython.final
cdef class Cell(Mailbox):
    # What every message touches comes first (see Mailbox).
    cdef bint queued
    cdef int status
    cdef int budget
    cdef int speed
    cdef int reason
    cdef Turn turn
    cdef object behavior
    cdef object driver
    cdef list overdue
    cdef object watch
    cdef Cell next_ready
    # A Kernel; an object because kernels know cells, and cimports must not go in circles.
    cdef object kernel
    cdef ActorId actor
    cdef object state
    cdef object name
    cdef object context
    cdef object message
    cdef list aside
    cdef Cell supervisor
    cdef int64_t birth
    cdef object cause
    cdef object overflow
    cdef Timer timers
    cdef Py_ssize_t fds
    cdef object family
    cdef object epilogue
    cdef bint keeps
    cdef bint is_heard
    cdef bint traps
    cdef dict links
    cdef dict watchers
    cdef dict watching

    @cython.locals(first=Timer)
    cdef object adopt_timer(self, Timer timer)
    @cython.locals(before=Timer, after=Timer)
    cdef object disown_timer(self, Timer timer)
