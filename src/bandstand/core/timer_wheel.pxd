cimport cython
from libc.stdint cimport int64_t, uint64_t
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.mailbox cimport ActorCell

cdef uint64_t ONE
cdef int GONE
cdef int DUE
cdef int LEVELS
cdef int64_t NEVER

cdef int lowest_bit(uint64_t word)

@cython.final
cdef class Timer:
    cdef int64_t deadline
    cdef int place
    cdef int lane
    cdef Timer before
    cdef Timer after
    cdef ActorCell cell
    cdef Timer previous_of_cell
    cdef Timer next_of_cell
    cdef object data
    cdef object tag
    cdef object sender
    cdef DeliveryCallback waiter

@cython.final
cdef class TimerQueue:
    cdef Timer first
    cdef Timer last
    @cython.locals(last=Timer)
    cdef object append(self, Timer timer)
    @cython.locals(before=Timer, after=Timer)
    cdef object remove(self, Timer timer)

@cython.final
cdef class WheelLevel:
    cdef uint64_t occupied
    cdef list slots
    @cython.locals(first=Timer, last=Timer)
    cdef object insert(self, Timer timer, int slot)
    @cython.locals(before=Timer, after=Timer)
    cdef object remove(self, Timer timer, int slot)

@cython.final
cdef class TimerWheel:
    cdef readonly int64_t time
    cdef readonly int64_t soonest
    cdef readonly int64_t pending
    cdef TimerQueue due
    cdef list levels

    cpdef object schedule(self, Timer timer, int64_t deadline)
    @cython.locals(place=int, level=WheelLevel)
    cpdef object cancel(self, Timer timer)
    @cython.locals(place=int, start=int64_t)
    cpdef object expire(self, int64_t now)
    @cython.locals(timer=Timer)
    cpdef Timer take(self)
    @cython.locals(timer=Timer, first=Timer, level=WheelLevel)
    cpdef list remaining(self)
    @cython.locals(deadline=int64_t, difference=int64_t, number=int, shift=int, slot=int, level=WheelLevel)
    cdef object place_timer(self, Timer timer)
    @cython.locals(level=WheelLevel, slot=int, timer=Timer, last=Timer, following=Timer)
    cdef object cascade(self, int place)
    @cython.locals(number=int, level=WheelLevel)
    cdef int next_place(self) except -2
    @cython.locals(shift=int)
    cdef int64_t start_of(self, int place)
    @cython.locals(place=int)
    cdef int64_t next_turn(self) except -1
