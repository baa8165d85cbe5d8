cimport cython
from bandstand.core.kernel cimport Kernel, check_sender, checked_delay, checked_lane

cdef object DATA_LANE
cdef object REJECT
cdef object ZERO

cdef extern from "Python.h":
    object current_context "PyContext_CopyCurrent" ()

cdef class Loop:
    cdef dict __dict__
    cdef object __weakref__
    cdef readonly Kernel kernel
