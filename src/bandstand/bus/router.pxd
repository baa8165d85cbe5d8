cimport cython
from libc.stdint cimport int64_t
from bandstand.core.loop cimport Loop
from bandstand.core.context cimport ActorContext
from bandstand.core.ids cimport ActorId
from bandstand.core.kernel cimport Kernel
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.timer_wheel cimport Timer
from bandstand.bus.admission cimport CreditLimit
from bandstand.bus.frame cimport IdGenerator, data_of, is_command, kind_of, metadata_of, timeout_of, type_of
from bandstand.bus.message_log cimport MemoryLog
from bandstand.bus.capability_slot cimport CapabilitySlot
from bandstand.bus.stats cimport BusCounters
from bandstand.bus.ingress cimport Peer
from bandstand.bus.request cimport PendingRequest, Route, new_client_request
from bandstand.bus.request_table cimport RequestTable

cdef int ACCEPTED
cdef int CONTROL
cdef int DATA
cdef int DONE
cdef int DUPLICATE
cdef int NEW
cdef int ROUTED
cdef object Frame

cdef class Router:
    cdef readonly Loop loop
    cdef public ActorId actor
    cdef readonly object config
    cdef readonly IdGenerator ids
    cdef public object log
    cdef MemoryLog _memory_log
    cdef object _append
    cdef readonly object taps
    cdef readonly BusCounters counters
    cdef readonly object upstream
    cdef readonly object faults
    cdef readonly object dead_letters
    cdef readonly CreditLimit client_credit
    cdef readonly CreditLimit internal_credit
    cdef readonly CreditLimit event_credit
    cdef readonly RequestTable requests
    cdef readonly object duplicates
    cdef readonly object retries
    cdef public dict slots
    cdef public object index
    cdef dict _commands
    cdef dict _queries
    cdef public bint is_draining
    cdef public bint is_running
    cdef bint is_tapped
    cdef public object scheduler
    cdef public object reminders
    cdef public object durable
    cdef public object steps
    cdef public object on_credit
    cdef public object on_capacity
    cdef public object on_durable_event
    cdef public object on_event
    cdef public object check_event
    cdef readonly object departing
    cdef public dict handlers

    cpdef object install(self, str kind, Route route)
    cpdef Route find(self, str kind, str type_name)
    cdef Route _route_of(self, object frame)
    cpdef object note(self, object frame, str destination)
    cdef object _log(self, object frame)
    cpdef double now_ms(self) except? -1
    cpdef object post(self, object item)
    @cython.locals(credit=CreditLimit)
    cpdef bint submit(self, PendingRequest pending) except -1
    @cython.locals(route=Route, slot=CapabilitySlot)
    cpdef bint admit(self, object requester, object frame, CreditLimit credit) except -1
    @cython.locals(slot=CapabilitySlot)
    cpdef bint admit_to(self, object requester, object frame, CreditLimit credit, Route route) except -1
    cpdef bint post_event(self, object frame) except -1
    cpdef bint hold_event(self, object frame, PendingRequest parent) except -1
    cpdef object answer(self, PendingRequest pending, object frame)
    @cython.locals(pending=PendingRequest)
    cpdef object turn(self, ActorContext ctx, object item)
    @cython.locals(route=Route)
    cpdef object take(self, PendingRequest pending)
    cpdef object enter(self, PendingRequest pending)
    cpdef bint hold(self, PendingRequest pending, PendingRequest parent) except -1
    @cython.locals(route=Route, slot=CapabilitySlot)
    cpdef object deliver(self, PendingRequest pending)
    @cython.locals(kernel=Kernel, cell=ActorCell)
    cdef object _start_deadline(self, PendingRequest pending, int64_t timeout_ms)
    cpdef object dispatch_otherwise(self, CapabilitySlot slot, PendingRequest pending)
    @cython.locals(is_final=bint, route=Route)
    cpdef object conclude(self, PendingRequest pending, object frame)
    @cython.locals(route=Route)
    cpdef object finish(self, PendingRequest pending, object frame, bint is_final)
    @cython.locals(peer=Peer)
    cpdef bint settle(self, PendingRequest pending, object frame) except -1
    @cython.locals(timer=Timer)
    cpdef double due_ms(self, PendingRequest pending) except? -1
    @cython.locals(timer=Timer, route=Route, slot=CapabilitySlot)
    cpdef object close(self, PendingRequest pending)
    cpdef object release(self, PendingRequest pending)
    cpdef object fail_unrouted(self, PendingRequest pending)
    cpdef object fail_unread(self, PendingRequest pending, object problem)
    cpdef object expire(self, PendingRequest pending)
    cdef bint _fail_cycle(self, PendingRequest pending) except -1
    cpdef bint goes_again(self, PendingRequest pending, object frame) except -1
    cdef bint _note_failure(self, PendingRequest pending, object frame) except -1
    cpdef object withdraw(self, PendingRequest pending)
    cpdef object abandon(self, PendingRequest pending)
    cpdef object leave_unsettled(self, PendingRequest pending, object frame)
