cimport cython
from bandstand.core.hot.desk cimport Desk
from bandstand.core.hot.ids cimport ActorId

cdef object REJECT
cdef Py_ssize_t LARGEST_CAP

cdef class Spawning(Desk):
    cdef public Py_ssize_t _default_cap

    cpdef Py_ssize_t _cap(self, object mailbox_cap) except -1
    @cython.locals(actor=ActorId)
    cpdef ActorId _make(self, object behavior, object state, object name, Py_ssize_t cap, object overflow, object supervisor, object context)
