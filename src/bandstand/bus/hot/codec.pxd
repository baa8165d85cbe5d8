cdef object NOTHING
cdef bytes NULL
cdef object Raw

cdef class Codec:
    cdef object _decode
    cdef object _encode
    cdef bint _is_nothing

    cpdef object read(self, object data)
    cpdef object write(self, object value)
    cpdef object read_again(self, object data, object error)
    cpdef object unfit(self, object value, object error)
    cpdef object check_finite(self, object value)
