cimport cython
from bandstand.core.hot.births cimport Births
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.context cimport ActorContext

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef int CONTROL
cdef int DATA
cdef int MANAGEMENT
cdef int SYSTEM
cdef int NORMAL
cdef int PANIC
cdef int RUNNING
cdef int STOPPING
cdef object OK_VERDICT
cdef object ZERO
cdef Py_ssize_t DEEPEST

cdef class Calls(Births):
    cdef public bint _direct

    @cython.final
    @cython.locals(current=ActorCell, cell=ActorCell, turn=ActorContext)
    cdef bint _call_directly(self, ActorId actor, int lane, object data, object tag, object sender) except -1
    @cython.locals(cell=ActorCell)
    cpdef object _hold_slot(self, ActorId actor, int lane)
    @cython.locals(cell=ActorCell)
    cpdef object _free_slots(self, ActorId actor, int lane, Py_ssize_t count)
    @cython.locals(cell=ActorCell)
    cpdef object _tag_at_hand(self, ActorId actor)
    @cython.locals(cell=ActorCell, count=Py_ssize_t)
    cpdef Py_ssize_t _take_back(self, ActorId actor, object shelf) except -1
    @cython.locals(cell=ActorCell)
    cpdef bint _holds(self, ActorId actor, int lane, object sender) except -1
    @cython.locals(cell=ActorCell, other=ActorCell, letter=tuple)
    cpdef bint _move(self, ActorId actor, int lane, object sender, ActorId to) except -1
    @cython.locals(cell=ActorCell, turn=ActorContext, is_suspended=bint)
    cpdef object _insight(self, ActorId actor)
    @cython.locals(cell=ActorCell)
    cpdef object _fail_like(self, ActorId actor, object cause)
    @cython.locals(cell=ActorCell)
    cpdef object _lineage(self, ActorId actor)
    @cython.locals(cell=ActorCell)
    cpdef object _state_of(self, ActorId actor)
