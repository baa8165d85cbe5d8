cimport cython
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.desk cimport Desk
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.kernel cimport is_coroutine
from bandstand.core.hot.ring cimport Ring
from bandstand.core.hot.turn cimport Turn
from bandstand.actor.hot.method cimport Method
from bandstand.actor.hot.asks cimport Asked
from bandstand.actor.hot.bundle cimport Bundle

cdef int SYSTEM
cdef object ZERO

@cython.final
cdef class Parcel:
    cdef readonly object data
    cdef readonly object carried

@cython.locals(method=Method, parcel=Parcel)
cpdef object perform(Turn turn, object data)
@cython.locals(asked=Asked, told=Asked)
cpdef object handle(Turn turn, Method method, object data)
@cython.locals(kernel=Desk, actor=ActorId, cell=Cell, ring=Ring, parcel=Parcel, asked=Asked, items=list, told=list, is_told=bint)
cpdef object gather(Turn turn, Method method, object data, object carried)
