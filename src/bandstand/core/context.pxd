cimport cython

@cython.final
cdef class ActorContext:
    cdef readonly object self_id
    cdef readonly object loop
    cdef public object state
    cdef readonly object tag
    cdef readonly object sender
    cdef int lane_number
