cimport cython
from bandstand.bus.frame cimport new_raw, read_field

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

cdef object EMPTY
cdef object Raw
cdef object _encode

cdef inline bint has_null(object line):
    return bandstand_has_null(line)

cdef inline object field_of(object field, object owner):
    return read_field(field, 0, owner)

@cython.final
cdef class PayloadCodec:
    cdef object _decode
    cdef bint _is_empty
    cdef tuple _plain_fields
    cdef object _where
    cdef readonly object annotation
    cdef readonly object example
    cdef readonly object schema

    cdef bint _is_plain(self, object value) except -1
    cpdef object read(self, object data)
    @cython.locals(line=bytes)
    cpdef object write(self, object value)
