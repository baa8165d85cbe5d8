cimport cython
from bandstand.bus.hot.fields cimport kind_of
from bandstand.bus.hot.purse cimport Purse
from bandstand.bus.hot.switch cimport Switch

cdef class Entrance:
    cdef readonly Switch switch
    cdef readonly Purse purse
    cdef public dict clients
    cdef public bint is_free

    @cython.locals(kind=str)
    cpdef bint admit(self, object line, object frame) except -1
    cpdef bint admit_otherwise(self, object line, object frame) except -1
    cpdef bint admit_in_need(self, object line, object frame) except -1
