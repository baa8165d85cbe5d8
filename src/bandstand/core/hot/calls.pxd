cimport cython
from bandstand.core.hot.births cimport Births
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.turn cimport Turn

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef int NORMAL
cdef int RUNNING
cdef int STOPPING
cdef object OK_VERDICT
cdef object ZERO
cdef Py_ssize_t DEEPEST

cdef class Calls(Births):
    cdef public bint _direct

    @cython.final
    @cython.locals(current=Cell, cell=Cell, turn=Turn)
    cdef bint _call_directly(self, ActorId actor, int lane, object data, object tag, object sender) except -1
    @cython.locals(cell=Cell)
    cpdef object _hold_slot(self, ActorId actor, int lane)
    @cython.locals(cell=Cell)
    cpdef object _free_slots(self, ActorId actor, int lane, Py_ssize_t count)
    @cython.locals(cell=Cell)
    cpdef object _state_of(self, ActorId actor)
