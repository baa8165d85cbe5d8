cimport cython
from bandstand.core.mailbox cimport ActorCell
from bandstand.actor.hot.asks cimport Asked
from bandstand.actor.hot.method cimport Method

@cython.final
cdef class Bundle(Asked):
    cdef readonly Method method
    cdef readonly list told

    @cython.locals(each=Asked, raises=tuple)
    cpdef object settle(self, object answers)
    @cython.locals(cell=ActorCell)
    cpdef object reconsider(self)
