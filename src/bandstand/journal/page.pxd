cimport cython
from libc.stdint cimport uint32_t

cdef extern from *:
    r"""
    #include <stdint.h>
    #include <string.h>

    static CYTHON_INLINE char *bandstand_put_u32(char *at, uint32_t number) {
        int shift;
        for (shift = 0; shift < 32; shift += 8) *at++ = (char)(number >> shift);
        return at;
    }

    /* Append a record to the body of a page. */
    static CYTHON_INLINE int bandstand_append_record(PyObject *body, int kind, PyObject *data, uint32_t checksum) {
        Py_ssize_t start = PyByteArray_GET_SIZE(body), size = PyBytes_GET_SIZE(data);
        char *at;
        if (PyByteArray_Resize(body, start + 9 + size) < 0) return -1;
        at = bandstand_put_u32(PyByteArray_AS_STRING(body) + start, (uint32_t)size);
        at = bandstand_put_u32(at, checksum);
        *at++ = (char)kind;
        memcpy(at, PyBytes_AS_STRING(data), size);
        return 0;
    }
    """
    int append_record "bandstand_append_record"(bytearray body, int kind, bytes data, uint32_t checksum) except -1

cdef object crc32

@cython.final
cdef class RecordBatch:
    cdef bytearray _body
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size

    cpdef object add(self, object kind, object data)
    cpdef object extend(self, RecordBatch other)
    cpdef object clear(self)
    cpdef bytes encode(self)
