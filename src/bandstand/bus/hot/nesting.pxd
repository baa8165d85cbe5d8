cimport cython

@cython.locals(size=Py_ssize_t, place=Py_ssize_t, depth=Py_ssize_t, byte=cython.uchar)
cpdef bint is_deeper(bytes line, Py_ssize_t limit) except -1
