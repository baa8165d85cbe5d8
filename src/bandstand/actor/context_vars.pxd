cimport cython
from bandstand.core.kernel cimport Kernel

cdef extern from "Python.h":
    object current_context "PyContext_CopyCurrent" ()

@cython.final
cdef class Envelope:
    cdef readonly object data
    cdef readonly object carried

@cython.final
cdef class CarriedContext:
    cdef readonly object context
    cdef readonly object tracer
    cdef readonly object value

@cython.final
cdef class ContextCarrier:
    cdef object home
    cdef bint carries
    cdef object tracer
    cdef object pack
    cdef readonly bint wraps_every_message

    cpdef object wrap(self, Kernel kernel, object handle, object method, object data)
