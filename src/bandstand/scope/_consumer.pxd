cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t
from bandstand.core.kernel cimport Kernel
from bandstand.core.ids cimport ActorId
from bandstand.core.coroutines cimport is_coroutine
from bandstand.core.context cimport ActorContext
from bandstand.scope._channel cimport ChannelCore, ChannelOp

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    PySendResult PyIter_Send(object coroutine, object value, PyObject **result) except PYGEN_ERROR

cdef int FRESH
cdef int DONE
cdef int CLOSED
cdef int LEFT
cdef double NO_TIMEOUT
cdef bint RECEIVE
cdef object ELEMENT
cdef object OK_VERDICT
cdef object STOP_VERDICT
cdef object FAIL_VERDICT

cdef class ActorReceive(ChannelOp):
    cdef object process
    cdef Kernel kernel
    cdef readonly ActorId actor
    cdef readonly bint is_busy
    cdef readonly bint is_scheduled
    cdef readonly bint is_stopping
    cdef readonly bint is_cancelled
    cdef readonly bint has_reached_end
    cdef readonly bint has_returned_stop
    cdef readonly int64_t processed
    cdef readonly int64_t strays

    @cython.locals(wrapped=ItemCoroutine)
    cpdef object run(self, ActorContext ctx)
    cdef object finish_item(self, object verdict)
    cpdef object schedule(self)
    cpdef object wake(self)
    cdef bint is_unreachable(self) except -1
    cpdef object stop(self)
    cpdef object on_cancelled(self)
    cdef object request_end(self)
    cpdef object end_actor(self)
    cpdef object detach(self)
    cpdef bint is_on_loop_thread(self) except -1
    cpdef bint is_current(self) except -1

@cython.final
cdef class ItemCoroutine:
    cdef ActorReceive receive
    cdef object coroutine
    cdef bint is_done

cdef inline object step_coroutine(ItemCoroutine wrapped, object value):
    cdef PyObject *result = NULL
    wrapped.is_done = False
    wrapped.is_done = PyIter_Send(wrapped.coroutine, value, &result) == PYGEN_RETURN
    # PyIter_Send returns a new reference, and the cast adds one.
    value = <object>result
    Py_DECREF(value)
    return value

@cython.final
cdef class ConsumerState:
    cdef readonly ActorReceive receive

@cython.locals(state=ConsumerState)
cpdef object consumer_behavior(ActorContext ctx, object _data)
