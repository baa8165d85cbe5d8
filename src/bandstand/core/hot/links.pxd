cimport cython
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.hot.monitors cimport Monitors

cdef int NORMAL
cdef int STOPPED
cdef int STOPPING
cdef object EXIT

cdef class Links(Monitors):
    cdef list _doomed
    cdef bint _falling

    @cython.locals(cell=ActorCell, actor=ActorId, peer=ActorCell)
    cpdef object link(self, object one, object other)
    @cython.locals(first=ActorId, second=ActorId, cell=ActorCell, peer=ActorCell)
    cpdef bint unlink(self, object one, object other) except -1
    @cython.locals(cell=ActorCell)
    cpdef object trap_exits(self, object actor, object is_on=*)
    @cython.locals(links=dict, actor=ActorId, peer=ActorCell)
    cdef object _sever(self, ActorCell cell, int reason, object cause)
    @cython.final
    cdef object _part(self, ActorCell cell, ActorId gone, int reason, object cause)
    @cython.final
    @cython.locals(doomed=list)
    cdef object _fall(self)
    @cython.final
    cdef object _end_linked(self, ActorCell cell, int reason, object error)
