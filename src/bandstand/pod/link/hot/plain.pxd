cdef Py_ssize_t SHORT
cdef Py_ssize_t MOST_FIELDS
cdef object LEAST_INT
cdef object MOST_INT

cpdef bint is_plain(object value) except -1
cdef bint are_fields(tuple fields) except -1
cdef bint is_field(object value) except -1
cdef bint is_short_text(str text) except -1
