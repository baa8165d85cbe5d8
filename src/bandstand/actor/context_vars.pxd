cimport cython
from bandstand.core.hot.desk cimport Desk
from bandstand.actor.hot.handle cimport Handle
from bandstand.actor.hot.method cimport Method

cdef extern from "Python.h":
    object current_context "PyContext_CopyCurrent" ()

@cython.final
cdef class Porter:
    cdef object home
    cdef bint carries
    cdef object sending
    cdef object luggage
    cdef object packing
    cdef bint is_light

    @cython.locals(kernel=Desk)
    cpdef object pack(self, Handle handle, Method method, object data)
