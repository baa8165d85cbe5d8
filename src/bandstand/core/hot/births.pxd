cimport cython
from libc.stdint cimport int64_t
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.hot.kernel cimport Kernel
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.context cimport ActorContext

cdef int DATA
cdef int64_t FAR
cdef int INIT
cdef int NORMAL
cdef int PANIC
cdef int RUNNING
cdef int STOPPING
cdef int SYSTEM
cdef object CHILD_START

cdef class Births(Kernel):
    cdef public object _init_error
    cdef public object _on_restart
    cdef public object _on_escalate
    cdef readonly int64_t _restarts
    cdef readonly int64_t _escalations

    cpdef object _no_seat(self)
    cpdef object _perform_later(self, ActorCell cell, object coroutine, object context)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object _spawn_child(self, object behavior, object init, object name, Py_ssize_t cap, object supervisor, object context, bint keeps, ActorCell estate, object overflow=*)
    @cython.final
    @cython.locals(turn=ActorContext, before=ActorCell)
    cdef object _run_init(self, ActorCell cell, object init)
    @cython.locals(before=ActorCell, turn=ActorContext, receipt=DeliveryCallback)
    cdef bint _say_goodbye(self, ActorCell cell) except -1
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object _set_epilogue(self, object target, object epilogue)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object _set_budget(self, object target, int budget)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object _set_heard(self, object target)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef bint _is_heard(self, object target) except -1
    @cython.locals(cell=ActorCell)
    cpdef object _close_mailbox(self, object target)
    @cython.final
    @cython.locals(actor=ActorId)
    cdef object _begin(self, ActorCell cell)
    @cython.final
    @cython.locals(turn=ActorContext, actor=ActorId, supervisor=ActorCell)
    cdef object _born(self, ActorCell cell, object state)
    @cython.final
    cdef ActorId _own_id(self, object target)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef bint _has_family(self, object target) except -1
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object _declare_born(self, object target, object state)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object _set_family(self, object target, object family)
    cpdef object _bury_estate(self, object estate)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object _kill_quietly(self, object target, object cause)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object _post_system_after(self, object target, Py_ssize_t ms, object data, object tag)
    @cython.locals(cell=ActorCell)
    cpdef object _post_later(self, object target, object ms, int lane, object data, object tag)
    @cython.locals(cell=ActorCell)
    cpdef object _post_at(self, object target, int64_t at_ms, int lane, object data, object tag)
    cpdef double _now_ms(self) except? -1
    cpdef object _tell_restart(self, ActorId supervisor, ActorId child, object attempt)
    cpdef object _tell_escalation(self, ActorId supervisor)
    @cython.locals(cell=ActorCell, actor=ActorId, rows=list)
    cpdef list _rows(self)
