cimport cython
from bandstand.core.counters cimport MessageCounters
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.mailbox cimport Ring
from bandstand.core.kernel cimport Kernel

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef int ADDRESSED
cdef int CALL
cdef object CONFLATE
cdef int DATA
cdef object DROP_NEWEST
cdef int STOPPED
cdef int STOPPING
cdef int UNRESERVED
cdef object ZERO

@cython.final
cdef class Inbox:
    cdef Kernel _kernel
    cdef list _entries
    cdef readonly bint is_armed
    cdef list _dropped_callbacks
    cdef object _lock

    cpdef bint is_empty(self)
    @cython.locals(actor=ActorId, cell=ActorCell, ring=Ring, kernel=Kernel, entries=list)
    cdef bint post_plain(self, object target, object data) except -1
    @cython.locals(cell=ActorCell, is_in=bint, kernel=Kernel)
    cpdef object post(self, object target, int lane, object data, object tag, object sender)
    cpdef object call_soon(self, object function)
    cpdef Py_ssize_t count(self) except -1
    @cython.locals(entries=list)
    cdef object _append_call(self, object function)
    @cython.locals(mark=int, entries=list)
    cdef bint _append(self, ActorCell cell, int lane, object data, object tag, object sender) except -1
    @cython.locals(entries=list, held=list, callbacks=list, callback=DeliveryCallback, counters=MessageCounters, read=Py_ssize_t, write=Py_ssize_t, to_drop=Py_ssize_t, to_keep=Py_ssize_t, drops_newest=bint, is_dropped=bint, mark=int, size=Py_ssize_t)
    cdef object _drop_surplus(self, ActorCell cell)
    @cython.locals(dropped=list)
    cdef object _run_dropped_callbacks(self)
    cdef object _unreachable_error(self, object target)
    cdef object _interrupt(self)
    cdef object _wake(self)
    @cython.locals(fresh=list, batch=list, at=Py_ssize_t, end=Py_ssize_t, mark=int, kernel=Kernel)
    cpdef object drain(self)
    @cython.locals(ring=Ring, kernel=Kernel)
    cdef object _deliver_plain(self, ActorCell cell, object data)
    @cython.locals(lane=int, kernel=Kernel)
    cdef object _deliver(self, ActorCell cell, int mark, object data, object tag, object sender)
