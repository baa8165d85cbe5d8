cimport cython
from bandstand.bus.hot.nesting cimport is_deeper

cdef Py_ssize_t DEEPEST
cdef Py_ssize_t LONG
cdef object decode
cdef object encode

@cython.locals(size=Py_ssize_t)
cpdef object read_plain(bytes line)
cpdef bytes write_frame(object frame)
