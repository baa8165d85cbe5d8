cimport cython
from bandstand.actor.dispatch cimport Method
from bandstand.actor.handle cimport Handle

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)

cdef Py_ssize_t MAX_TEXT
cdef Py_ssize_t MAX_FIELDS
cdef object MIN_INT
cdef object MAX_INT
cdef Py_ssize_t VALUE_BYTES
cdef Py_ssize_t CHARACTER_BYTES
cdef object UNSET

cpdef bint is_plain(object value) except -1
cdef bint are_fields(tuple fields) except -1
cdef bint is_field(object value) except -1
cdef bint is_short_text(str text) except -1
@cython.locals(size=Py_ssize_t, fields=tuple)
cpdef Py_ssize_t plain_size(object value) except -1
@cython.locals(length=Py_ssize_t)
cdef Py_ssize_t field_size(object value) except -1

@cython.final
cdef class Packet:
    cdef readonly bytes body
    cdef public tuple parts
    cdef public tuple part_numbers
    cdef readonly Py_ssize_t size
    cdef readonly bint is_over_budget
    cdef object _budget
    cdef Py_ssize_t _charged

@cython.final
cdef class Packer:
    cdef tuple _carries
    cdef object _check
    cdef object _bounds
    cdef dict _budgets

    @cython.locals(carried=tuple)
    cpdef object pack(self, Handle handle, Method method, object data)
    @cython.locals(carried=list)
    cpdef tuple carried(self)

cpdef object default_of(object variable)
