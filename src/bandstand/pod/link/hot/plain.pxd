cimport cython

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)

cdef Py_ssize_t SHORT
cdef Py_ssize_t MOST_FIELDS
cdef object LEAST_INT
cdef object MOST_INT
cdef Py_ssize_t VALUE_BYTES
cdef Py_ssize_t WIDEST

cpdef bint is_plain(object value) except -1
cdef bint are_fields(tuple fields) except -1
cdef bint is_field(object value) except -1
cdef bint is_short_text(str text) except -1
@cython.locals(weight=Py_ssize_t, fields=tuple)
cpdef Py_ssize_t plain_weight(object value) except -1
@cython.locals(length=Py_ssize_t)
cdef Py_ssize_t field_weight(object value) except -1
