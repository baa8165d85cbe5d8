cimport cython
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.mailbox cimport Ring
from bandstand.core.hot.timers cimport Timers

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef int DATA
cdef int STOPPED
cdef int STOPPING
cdef int UNPROMISED
cdef int ADDRESSED
cdef int CALL
cdef object ZERO
cdef object DATA_LANE
cdef object CONFLATE
cdef object DROP_NEWEST

cdef class Arrivals(Timers):
    cdef list _inbox
    cdef bint _armed_inbox
    cdef bint _attention
    cdef readonly bint _halted
    cdef public bint _down
    cdef public bint _shut
    cdef object _lock
    cdef list _given_up

    cpdef object _halt(self)
    cpdef object _wake_from_afar(self)
    @cython.final
    @cython.locals(cell=ActorCell, is_in=bint)
    cdef object _post_afar(self, object target, int number, object data, object tag, object sender)
    cpdef object _call_afar(self, object function)
    @cython.final
    @cython.locals(inbox=list)
    cdef object _take_call(self, object function)
    @cython.final
    cdef object _call_attention(self)
    @cython.final
    cdef object _announce(self)
    @cython.final
    @cython.locals(given_up=list)
    cdef object _tell_given_up(self)
    @cython.final
    @cython.locals(mark=int, inbox=list)
    cdef bint _take_in(self, ActorCell cell, int lane, object data, object tag, object sender) except -1
    @cython.final
    @cython.locals(actor=ActorId, cell=ActorCell, ring=Ring, inbox=list)
    cdef bint _take_plain(self, object target, object data) except -1
    @cython.final
    @cython.locals(inbox=list, held=list, told=list, receipt=DeliveryCallback, read=Py_ssize_t, write=Py_ssize_t, give_up=Py_ssize_t, kept=Py_ssize_t, newest=bint, is_over=bint, mark=int, size=Py_ssize_t)
    cdef object _thin_out(self, ActorCell cell)
    @cython.final
    cdef object _refused_afar(self, object target)
    @cython.final
    cdef object _full_afar(self, ActorCell cell, int lane)
    @cython.locals(fresh=list, batch=list, at=Py_ssize_t, end=Py_ssize_t, mark=int)
    cpdef object _drain(self)
    @cython.final
    @cython.locals(ring=Ring)
    cdef object _arrive_plain(self, ActorCell cell, object data)
    @cython.final
    @cython.locals(lane=int)
    cdef object _arrive(self, ActorCell cell, int mark, object data, object tag, object sender)
