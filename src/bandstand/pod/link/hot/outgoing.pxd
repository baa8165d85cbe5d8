cimport cython
from libc.stdint cimport int64_t
from bandstand.pod.link.hot.ledger cimport Ledger, Question
from bandstand.pod.link.hot.outlet cimport Channel, Outlet
from bandstand.pod.link.hot.strand cimport Strand
from bandstand.pod.link.hot.tray cimport Tray, framed
from bandstand.actor.reply cimport ReplyCallback

cdef object CANCEL
cdef int END
cdef list REMOTE_ARRIVALS

cdef class Outgoing

@cython.final
cdef class Relay:
    cdef readonly Outgoing outgoing
    cdef readonly int64_t number
    cdef readonly int64_t arrivals

@cython.final
cdef class Outgoing:
    cdef Ledger _ledger
    cdef Tray _tray
    cdef Strand _wire
    cdef public object probes

    @cython.locals(flat=list)
    cpdef object send(self, Outlet outlet, object sender, object data)
    @cython.locals(number=int64_t)
    cpdef object ask(self, Outlet outlet, ReplyCallback asked, object data)
    @cython.locals(channel=Channel)
    cdef object line_up(self, Outlet outlet, int64_t number, object data)
    @cython.locals(flat=list, question=Question)
    cdef object put(self, Outlet outlet, int64_t number, object data)
    @cython.locals(line=object, outlet=Outlet, number=int64_t)
    cpdef object follow(self, Channel channel)
    @cython.locals(flat=list, question=Question)
    cpdef object cancel(self, int64_t number)
    cpdef bint is_choked(self) except -1
