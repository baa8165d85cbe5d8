cdef class Party:
    cdef readonly object line
    cdef public bint is_open

    cpdef bint settle(self, object frame, bint settles) except -1
