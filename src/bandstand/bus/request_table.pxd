cimport cython
from bandstand.bus.frame cimport data_of, id_of, kind_of, metadata_of, type_of
from bandstand.bus.request cimport PendingRequest, Route

cdef extern from *:
    """
    #include <string.h>
    static CYTHON_INLINE PyObject *bandstand_join_data(PyObject *first, PyObject *second) {
        Py_buffer head, tail;
        PyObject *joined;
        if (PyObject_GetBuffer(first, &head, PyBUF_SIMPLE) < 0) return NULL;
        if (PyObject_GetBuffer(second, &tail, PyBUF_SIMPLE) < 0) {
            PyBuffer_Release(&head);
            return NULL;
        }
        joined = PyBytes_FromStringAndSize(NULL, head.len + tail.len);
        if (joined != NULL) {
            memcpy(PyBytes_AS_STRING(joined), head.buf, head.len);
            memcpy(PyBytes_AS_STRING(joined) + head.len, tail.buf, tail.len);
        }
        PyBuffer_Release(&tail);
        PyBuffer_Release(&head);
        return joined;
    }

    /* Have the processor load an object that will be used soon. */
    static CYTHON_INLINE void bandstand_prefetch(PyObject *soon) {
    #if defined(__GNUC__)
        __builtin_prefetch(soon);
    #else
        (void)soon;
    #endif
    }
    """
    bytes join_data "bandstand_join_data"(object first, object second)
    void prefetch "bandstand_prefetch"(object soon)

cdef int DONE
cdef Py_ssize_t PREFETCHED
cdef object Raw

@cython.final
cdef class RememberedAnswer:
    cdef readonly str id
    cdef readonly str kind
    cdef readonly str type
    cdef readonly str answer_kind
    cdef readonly str answer_type
    cdef readonly bytes data
    cdef readonly Py_ssize_t request_size
    cdef readonly double until_ms

    cpdef bytes request_data(self)
    cpdef object answer_data(self)

@cython.locals(remembered=RememberedAnswer)
cdef RememberedAnswer remembered_answer(object frame, Route route, object answer, double until_ms)

@cython.final
cdef class RequestTable:
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _limit_bytes
    cdef double _keep_ms
    cdef dict _known
    cdef dict _duplicates
    cdef list _ring
    cdef Py_ssize_t _start
    cdef Py_ssize_t _count
    cdef readonly Py_ssize_t held_bytes

    cpdef bint enter(self, PendingRequest pending) except -1
    cpdef object find(self, str name)
    @cython.locals(first=PendingRequest)
    cpdef object take_over(self, PendingRequest pending)
    cpdef Py_ssize_t count_open(self) except -1
    cpdef list open_requests(self)
    cpdef object leave(self, PendingRequest pending)
    @cython.locals(remembered=RememberedAnswer)
    cpdef object keep(self, PendingRequest pending, object answer, double now_ms)
    @cython.locals(place=Py_ssize_t)
    cdef object _add(self, RememberedAnswer remembered, double now_ms)
    @cython.locals(remembered=RememberedAnswer)
    cpdef object restore(self, object request, object answer, double now_ms, double age_ms=*)
    @cython.locals(oldest=RememberedAnswer)
    cpdef object expire(self, double now_ms)
    @cython.locals(oldest=RememberedAnswer, start=Py_ssize_t)
    cdef object _forget_oldest(self)
    @cython.locals(place=Py_ssize_t, soon=RememberedAnswer)
    cdef object _prefetch(self)
