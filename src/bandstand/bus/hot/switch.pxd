cimport cython
from bandstand.core.loop cimport Loop
from bandstand.core.ids cimport ActorId
from bandstand.core.timer_wheel cimport Timer
from bandstand.bus.hot.fields cimport data_of, kind_of, metadata_of, timeout_of, type_of
from bandstand.bus.hot.idmaker cimport IdMaker
from bandstand.bus.hot.pending cimport Pending
from bandstand.bus.hot.purse cimport Purse
from bandstand.bus.hot.roll cimport Roll
from bandstand.bus.hot.route cimport Route
from bandstand.bus.hot.stand cimport Stand
from bandstand.bus.hot.tally cimport Tally

cdef int ACCEPTED
cdef int CONTROL
cdef int DATA
cdef int DONE
cdef int NEW
cdef int REPEAT
cdef int ROUTED
cdef object Frame

cdef class Switch:
    cdef readonly Loop loop
    cdef public ActorId actor
    cdef readonly IdMaker ids
    cdef readonly Tally books
    cdef readonly object taps
    cdef readonly Purse outputs
    cdef readonly Roll roll
    cdef public object on_credit
    cdef public object on_event
    cdef public object on_room
    cdef dict _commands
    cdef dict _queries
    cdef object _write_down

    cpdef object install(self, str kind, Route route)
    cpdef Route find(self, str kind, str type_name)
    cpdef object note(self, object frame, str destination)
    cpdef list open_requests(self)
    cpdef Py_ssize_t count_open(self) except -1
    cpdef object post(self, object item)
    @cython.locals(purse=Purse)
    cpdef bint submit(self, Pending pending) except -1
    @cython.locals(route=Route, seat=Stand)
    cpdef bint admit(self, object origin, object frame, Purse purse) except -1
    @cython.locals(pending=Pending, seat=Stand)
    cpdef bint admit_anyway(self, object origin, object frame, Purse purse, Route route) except -1
    cpdef bint post_event(self, object frame) except -1
    cpdef object answer(self, Pending pending, object frame)
    @cython.locals(pending=Pending)
    cpdef object turn(self, object ctx, object item)
    @cython.locals(route=Route, seat=Stand)
    cpdef object take(self, Pending pending)
    @cython.locals(is_final=bint, route=Route)
    cpdef object conclude(self, Pending pending, object frame)
    @cython.locals(is_settled=bint)
    cpdef bint settle(self, Pending pending, object frame) except -1
    @cython.locals(timer=Timer)
    cpdef double due_ms(self, Pending pending) except? -1
    @cython.locals(timer=Timer, route=Route, seat=Stand)
    cpdef object close(self, Pending pending)
    cpdef object release(self, Pending pending)
    cpdef object take_otherwise(self, object item)
    cpdef object take_repeat(self, Pending pending)
    cpdef object settle_joined(self, Pending pending, object frame)
    cpdef bint goes_again(self, Pending pending, object frame) except -1
    cpdef object fail_unrouted(self, Pending pending)
    cpdef object fail_unread(self, Pending pending, object problem)
    cpdef object dispatch_otherwise(self, Stand seat, Pending pending)
    cpdef bint closes_circle(self, Pending pending) except -1
    cpdef object expire(self, Pending pending)
    cpdef object leave_unsettled(self, Pending pending, object frame)
    cpdef object complain(self, Pending pending, object error)
    cpdef bint note_failure(self, Pending pending, object frame) except -1
