cimport cython
from bandstand.core.timer_wheel cimport Timer
from bandstand.bus.admission cimport CreditLimit
from bandstand.bus.contracts.codec cimport PayloadCodec

@cython.final
cdef class Route:
    # A CapabilitySlot. Not typed: its module needs this one, and the constants of this one have to be there then.
    cdef readonly object slot
    cdef readonly object entry
    cdef readonly str type
    cdef readonly Py_ssize_t place
    cdef readonly PayloadCodec codec
    cdef readonly object read
    cdef readonly object envelope
    cdef readonly object method
    cdef readonly PayloadCodec reply
    cdef readonly object timeout_ms
    cdef readonly object retry
    cdef readonly bint remembers
    cdef readonly bint is_durable
    cdef readonly bint is_retry_safe

@cython.final
cdef class OpenRequest:
    cdef readonly long long number
    cdef readonly long long at
    cdef readonly long long flags
    cdef readonly bytes line
    cdef public long long begun
    cdef public long long page
    cdef public bint is_marked
    cdef public bint has_place
    cdef public list outputs

@cython.final
cdef class PendingRequest:
    cdef readonly object requester
    cdef readonly object frame
    cdef readonly CreditLimit credit
    cdef readonly bint settles
    cdef readonly object parent
    cdef public int stage
    cdef public bint holds_id
    cdef public object answer
    cdef public bint is_answered
    cdef public bint is_begun
    cdef public bint is_queued
    cdef public Route route
    cdef public Route counted_route
    cdef public object payload
    cdef public Timer timer
    cdef public int retries
    cdef public list duplicates
    cdef public OpenRequest entry
    cdef public bint is_owed

@cython.locals(pending=PendingRequest)
cpdef PendingRequest new_client_request(object requester, object frame, CreditLimit credit, Route route)

cdef class Delivery:
    cdef readonly object frame
    cdef readonly Route route
    cdef readonly object payload

@cython.final
cdef class DeferredTurn(Delivery):
    cdef readonly object actor
