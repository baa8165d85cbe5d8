cimport cython
from bandstand.actor.dispatch cimport Method

@cython.final
cdef class Channel:
    # A StandIn; an object because stand-ins know channels, and cimports must not go in circles.
    cdef readonly object stand_in
    cdef readonly int lane
    cdef public object line

@cython.final
cdef class Outlet:
    cdef readonly Method method
    # An object: it is what is written.
    cdef readonly object code
    cdef readonly Channel channel
    cdef readonly bint is_ask
    cdef readonly int lane
    cdef readonly object pending
