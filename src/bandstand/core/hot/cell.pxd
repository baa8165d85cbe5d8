cimport cython
from libc.stdint cimport int64_t
from bandstand.core.hot.turn cimport Turn
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.mailbox cimport Mailbox
from bandstand.core.hot.wheel cimport Timer

cdef int INIT

@cython.final
cdef class Cell(Mailbox):
    # A Kernel; an object because kernels know cells, and cimports must not go in circles.
    cdef object kernel
    cdef ActorId actor
    cdef object behavior
    cdef object state
    cdef object name
    cdef Turn turn
    cdef object context
    cdef object driver
    cdef object message
    cdef list aside
    cdef Cell supervisor
    cdef bint queued
    cdef Cell next_ready
    cdef int64_t birth
    cdef int status
    cdef int reason
    cdef int budget
    cdef object cause
    cdef object overflow
    cdef Timer timers
    cdef list overdue
    cdef Py_ssize_t fds
    cdef object watch
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
