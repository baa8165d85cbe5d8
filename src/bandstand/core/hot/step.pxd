from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF

cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    PySendResult PyIter_Send(object coroutine, object value, PyObject **result) except PYGEN_ERROR
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1

cdef class Step:
    cdef readonly bint is_done
    cpdef object begin(self, object coroutine, object context)

cdef inline object begin_step(Step step, object coroutine, object context):
    cdef PyObject *result = NULL
    cdef object value
    PyContext_Enter(context)
    try:
        step.is_done = PyIter_Send(coroutine, None, &result) == PYGEN_RETURN
    finally:
        PyContext_Exit(context)
    # PyIter_Send has given us a reference; the cast takes one of its own.
    value = <object>result
    Py_DECREF(value)
    return value
