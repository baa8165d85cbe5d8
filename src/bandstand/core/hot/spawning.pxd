cimport cython
from bandstand.core.hot.desk cimport Desk
from bandstand.core.ids cimport ActorId

cdef object REJECT
cdef object LARGEST_CAP

cdef extern from "Python.h":
    object current_context "PyContext_CopyCurrent" ()

cdef class Spawning(Desk):
    cdef public Py_ssize_t _default_cap

    @cython.locals(cap=Py_ssize_t)
    cpdef Py_ssize_t _cap(self, object mailbox_cap) except -1
    @cython.locals(actor=ActorId)
    cpdef ActorId _make(self, object behavior, object state, object name, Py_ssize_t cap, object overflow, object supervisor, object context)
