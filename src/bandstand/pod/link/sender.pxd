cimport cython
from libc.stdint cimport int64_t
from bandstand.actor.dispatch cimport Method
from bandstand.actor.reply cimport ReplyCallback
from bandstand.core.context cimport ActorContext
from bandstand.core.ids cimport ActorId
from bandstand.core.loop cimport Loop
from bandstand.pod.link.codec cimport Packet
from bandstand.pod.link.transport cimport Transport, WriteQueue

cdef int ANSWERED
cdef object CANCEL
cdef int DROPPED
cdef int FAILED
cdef int LOST
cdef int WITHDRAWN
cdef list REMOTE_ARRIVALS

cdef class RemoteProxy
cdef class Sender

@cython.final
cdef class ProxyLane:
    cdef readonly RemoteProxy proxy
    cdef readonly object backlog

@cython.final
cdef class RemoteMethod:
    cdef readonly Method method
    # Objects: they are what is written.
    cdef readonly object code
    cdef readonly object ask_code
    cdef readonly ProxyLane proxy_lane
    cdef readonly bint is_ask
    cdef readonly int lane
    cdef readonly object pending

@cython.final
cdef class TrackedTell:
    cdef readonly ReplyCallback callback
    cdef readonly object data

@cython.final
cdef class PendingAsk:
    cdef readonly Sender sender
    cdef readonly object number
    cdef readonly RemoteMethod remote_method
    cdef readonly ReplyCallback reply
    cdef readonly object data
    cdef readonly int64_t arrivals
    cdef readonly bint is_queued

@cython.final
cdef class InFlightTable:
    cdef str _there
    cdef object _unpack
    cdef object _on_undelivered
    cdef dict _methods
    cdef readonly dict asks
    cdef int64_t _last_number
    cdef readonly int64_t sent
    cdef readonly int64_t handled
    cdef readonly int64_t dead
    cdef readonly int64_t dropped
    cdef readonly int64_t in_doubt

    cdef object add_tell(self, RemoteMethod remote_method, object data, object sender)
    @cython.locals(ask=PendingAsk)
    cdef PendingAsk add_ask(self, Sender sender, RemoteMethod remote_method, object data, ReplyCallback reply)
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, method=RemoteMethod)
    cpdef object take_acks(self, list entries)
    cdef object end_tells(self, RemoteMethod method, int64_t handled, int64_t dead, int64_t dropped)
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, ask=PendingAsk)
    cpdef object take_answers(self, list entries)

cdef object check_whole(list entries, Py_ssize_t size)

@cython.final
cdef class Sender:
    cdef InFlightTable _in_flight
    cdef WriteQueue _queue
    cdef Transport _transport
    cdef public object probes

    cdef object tell(self, RemoteMethod method, object sender, object data)
    @cython.locals(ask=PendingAsk)
    cdef object ask(self, RemoteMethod method, ReplyCallback reply, object data)
    @cython.locals(proxy_lane=ProxyLane)
    cdef object enqueue(self, RemoteMethod method, PendingAsk ask, object data)
    cdef object append(self, RemoteMethod method, PendingAsk ask, object data)
    @cython.locals(backlog=object, method=RemoteMethod, ask=PendingAsk)
    cpdef object resume_backlog(self, ProxyLane proxy_lane)
    cpdef object cancel(self, PendingAsk ask)
    cdef bint is_write_blocked(self) except -1

@cython.final
cdef class RemoteProxy:
    cdef readonly str role
    cdef Loop _loop
    cdef Sender _sender
    cdef readonly bint holds_slots
    cdef dict _methods
    cdef readonly ActorId actor
    cdef bint _is_lost
    cdef bint _is_draining

    @cython.locals(method=RemoteMethod, reply=ReplyCallback)
    cpdef object forward(self, ActorContext turn, object data)
    @cython.locals(remote_method=RemoteMethod)
    cpdef object send(self, Method method, object data, ReplyCallback callback)
    cdef object free_slots(self, int lane, Py_ssize_t count)
