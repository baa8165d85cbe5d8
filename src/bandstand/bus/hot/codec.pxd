cimport cython

cdef extern from *:
    """
    #include <string.h>
    static int bandstand_has_null(PyObject *line) {
        const char *at = PyBytes_AS_STRING(line);
        const char *end = at + PyBytes_GET_SIZE(line) - 4;
        for (; at <= end && (at = (const char *)memchr(at, 'n', end - at + 1)) != NULL; at++)
            if (memcmp(at, "null", 4) == 0) return 1;
        return 0;
    }
    """
    bint bandstand_has_null(object line)

cdef object NOTHING
cdef object Raw

cdef inline bint has_null(object line):
    return bandstand_has_null(line)

cdef class Codec:
    cdef object _decode
    cdef object _encode
    cdef bint _is_nothing

    cpdef object read(self, object data)
    @cython.locals(line=bytes)
    cpdef object write(self, object value)
    cpdef object read_again(self, object data, object error)
    cpdef object unfit(self, object value, object error)
    cpdef object check_finite(self, object value)
