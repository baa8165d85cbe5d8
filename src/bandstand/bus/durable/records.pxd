from libc.stdint cimport uint64_t

cdef extern from *:
    r"""
    #include <stdint.h>
    #include <string.h>

    static CYTHON_INLINE char *bandstand_put_u64(char *at, uint64_t number) {
        int shift;
        for (shift = 0; shift < 64; shift += 8) *at++ = (char)(number >> shift);
        return at;
    }

    /* The data of the record of an accepted command. */
    static CYTHON_INLINE PyObject *bandstand_join_request(uint64_t number, uint64_t at, unsigned char flags, PyObject *line) {
        PyObject *data = PyBytes_FromStringAndSize(NULL, 17 + PyBytes_GET_SIZE(line));
        char *place;
        if (data == NULL) return NULL;
        place = bandstand_put_u64(bandstand_put_u64(PyBytes_AS_STRING(data), number), at);
        *place++ = (char)flags;
        memcpy(place, PyBytes_AS_STRING(line), PyBytes_GET_SIZE(line));
        return data;
    }

    /* The data of the record of an answer. */
    static CYTHON_INLINE PyObject *bandstand_join_answer(uint64_t number, unsigned char flags, PyObject *line) {
        PyObject *data = PyBytes_FromStringAndSize(NULL, 9 + PyBytes_GET_SIZE(line));
        char *place;
        if (data == NULL) return NULL;
        place = bandstand_put_u64(PyBytes_AS_STRING(data), number);
        *place++ = (char)flags;
        memcpy(place, PyBytes_AS_STRING(line), PyBytes_GET_SIZE(line));
        return data;
    }
    """
    bytes join_request "bandstand_join_request"(uint64_t number, uint64_t at, unsigned char flags, bytes line)
    bytes join_answer "bandstand_join_answer"(uint64_t number, unsigned char flags, bytes line)

cpdef bytes request_data(uint64_t number, uint64_t at, unsigned char flags, bytes line)
cpdef bytes answer_data(uint64_t number, unsigned char flags, bytes line)
