cimport cython
from libc.stdint cimport int64_t
from bandstand.actor.dispatch cimport Method
from bandstand.actor.handle cimport post_or_wait
from bandstand.actor.reply cimport ReplyCallback
from bandstand.core.ids cimport ActorId
from bandstand.core.kernel cimport Kernel
from bandstand.pod.link.codec cimport Packet, is_plain
from bandstand.pod.link.sender cimport InFlightTable
from bandstand.pod.link.transport cimport Transport, WriteQueue

cdef int ACKS
cdef int ANSWERS
cdef int MESSAGES
cdef int CANCEL
cdef int DATA_LANE
cdef int NO_ACTOR
cdef object ANSWERED
cdef object WITHDRAWN
cdef list REMOTE_ARRIVALS
cdef dict CROSS_LOOP_WAITS
cdef object NO_DATA
cdef object decode
cdef object decode_acks

cdef class Receiver

@cython.final
cdef class IncomingRole:
    cdef readonly str role
    cdef list _names
    cdef object _find
    cdef readonly ActorId actor
    cdef readonly list methods

    cpdef bint renew(self) except -1

@cython.final
cdef class AckCounter(ReplyCallback):
    cdef Receiver _receiver
    cdef readonly object code
    cdef public Py_ssize_t handled
    cdef public Py_ssize_t dead
    cdef public Py_ssize_t dropped_count
    cdef public bint is_due

@cython.final
cdef class IncomingMethod:
    cdef readonly IncomingRole role
    cdef Py_ssize_t _index
    cdef readonly AckCounter acks
    cdef readonly Method method

    cpdef Method resolve(self)

@cython.final
cdef class IncomingAsk(ReplyCallback):
    cdef Receiver _receiver
    cdef object _number
    cdef int _lane
    cdef readonly object method
    cdef bint _is_over

    cpdef object withdraw(self)

@cython.final
cdef class Receiver:
    cdef object _find
    cdef object _check
    cdef object _there
    cdef object _here
    cdef WriteQueue _queue
    cdef Transport _transport
    cdef object _on_busy
    cdef object _unpack
    cdef tuple _carries
    cdef list _methods
    cdef dict _asks
    cdef list _due
    cdef readonly bint has_acks
    cdef bint _is_closed
    cdef ActorId _last_actor
    cdef readonly int64_t received
    cdef int64_t _ask_count
    cdef int64_t _acked_count
    cdef Py_ssize_t _sending_count

    @cython.locals(methods=list, most=object, at=Py_ssize_t, end=Py_ssize_t, incoming=IncomingMethod, method=Method)
    cpdef object take_messages(self, list entries)
    @cython.locals(actor=ActorId, kernel=Kernel)
    cdef object run_actors(self)
    @cython.locals(method=Method, ask=IncomingAsk, actor=ActorId)
    cdef object take_ask(self, IncomingMethod incoming, object number, object value)
    cdef object ack_later(self, AckCounter counter)
    @cython.locals(entries=list, due=list, counter=AckCounter)
    cdef list take_acks(self)
    cdef object answer(self, object number, int lane, object value)
    cdef object put(self, object number, object outcome, object value)

@cython.final
cdef class FrameDispatcher:
    cdef Receiver _receiver
    cdef InFlightTable _in_flight
    cdef object _on_other
    cdef public bint is_closed

    cdef object dispatch(self, int kind, object body)
