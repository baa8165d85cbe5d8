cimport cython
from libc.stdint cimport uint64_t

cdef int INDEX_SHIFT
cdef int LOOP_SHIFT
cdef int STOPPING
cdef uint64_t MAX_INDEX
cdef uint64_t MAX_GENERATION
cdef uint64_t MODULUS

cdef class ActorId:
    cdef uint64_t number
    # A Cell, or None once the actor has ended. An object here because cells know ids, and cimports must not go in circles.
    cdef object cell
    cdef readonly object home
    cdef int fate
    cdef int reason
