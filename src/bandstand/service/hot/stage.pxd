cimport cython
from bandstand.core.hot.kernel cimport is_coroutine
from bandstand.core.hot.turn cimport Turn
from bandstand.service.hot.method cimport Method
from bandstand.service.hot.asks cimport Asked

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
