cimport cython
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.monitors cimport Monitors

cdef int NORMAL
cdef int STOPPED
cdef int STOPPING
cdef object EXIT

cdef class Links(Monitors):
    cdef list _doomed
    cdef bint _falling

    @cython.locals(cell=Cell, actor=ActorId, peer=Cell)
    cpdef object link(self, object one, object other)
    @cython.locals(first=ActorId, second=ActorId, cell=Cell, peer=Cell)
    cpdef bint unlink(self, object one, object other) except -1
    @cython.locals(cell=Cell)
    cpdef object trap_exits(self, object actor, object is_on=*)
    @cython.locals(links=dict, actor=ActorId, peer=Cell)
    cdef object _sever(self, Cell cell, int reason, object cause)
    @cython.final
    cdef object _part(self, Cell cell, ActorId gone, int reason, object cause)
    @cython.final
    @cython.locals(doomed=list)
    cdef object _fall(self)
    @cython.final
    cdef object _end_linked(self, Cell cell, int reason, object error)
