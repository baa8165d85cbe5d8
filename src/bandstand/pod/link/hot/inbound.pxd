cimport cython
from libc.stdint cimport int64_t
from bandstand.core.kernel cimport Kernel
from bandstand.core.ids cimport ActorId
from bandstand.pod.link.hot.doors cimport Inlet
from bandstand.pod.link.hot.plain cimport is_plain
from bandstand.pod.link.hot.receipts cimport Question, Tally
from bandstand.pod.link.hot.tray cimport Tray
from bandstand.actor.dispatch cimport Method
from bandstand.actor.handle cimport post_or_wait

cdef int ANSWERED
cdef int ANSWER_LANE
cdef int NO_ACTOR
cdef int CANCEL
cdef int DATA_LANE
cdef int FAILED
cdef int WITHDRAWN
cdef list REMOTE_ARRIVALS
cdef dict CROSS_LOOP_WAITS
cdef object NOTHING

@cython.final
cdef class Inbound:
    cdef object _find
    cdef object _check
    cdef object _there
    cdef object _here
    cdef Tray _tray
    cdef object _stir
    cdef object _met
    cdef object _unpack
    cdef tuple _carries
    cdef list _inlets
    cdef dict _questions
    cdef list _due
    cdef bint _is_over
    cdef ActorId _brought
    cdef readonly int64_t received
    cdef int64_t _asks
    cdef int64_t _acked
    cdef Py_ssize_t _leaving

    @cython.locals(inlets=list, most=object, at=Py_ssize_t, end=Py_ssize_t, inlet=Inlet, method=Method)
    cpdef object take(self, list flat)
    @cython.locals(brought=ActorId, kernel=Kernel)
    cpdef object settle(self)
    @cython.locals(method=Method, question=Question)
    cdef object take_ask(self, Inlet inlet, object number, object value)
    cpdef object note(self, Tally tally)
    @cython.locals(flat=list, due=list, tally=Tally)
    cpdef list acks(self)
    cpdef object answer(self, object number, int lane, object value)
    @cython.locals(flat=list)
    cdef object put(self, object number, int kind, object value)
