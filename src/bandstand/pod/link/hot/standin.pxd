cimport cython
from bandstand.core.loop cimport Loop
from bandstand.core.ids cimport ActorId
from bandstand.core.context cimport ActorContext
from bandstand.pod.link.hot.outgoing cimport Outgoing
from bandstand.pod.link.hot.outlet cimport Channel, Outlet
from bandstand.actor.reply cimport ReplyCallback

@cython.final
cdef class StandIn:
    cdef readonly str role
    cdef Loop _porch
    cdef Outgoing _outgoing
    cdef readonly bint holds
    cdef dict _outlets
    cdef readonly ActorId actor
    cdef bint _is_lost
    cdef bint _is_draining

    @cython.locals(outlet=Outlet, asked=ReplyCallback)
    cpdef object pass_on(self, ActorContext turn, object data)
    cpdef object free(self, int lane, Py_ssize_t count)
