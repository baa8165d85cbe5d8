cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t
from bandstand.core.hot.desk cimport Desk
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.kernel cimport is_coroutine
from bandstand.core.hot.turn cimport Turn
from bandstand.scope.hot.passage cimport Passage
from bandstand.scope.hot.pipe cimport Pipe

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
cdef double FOREVER
cdef bint RECEIVE
cdef object ELEMENT
cdef object OK_VERDICT
cdef object STOP_VERDICT
cdef object FAIL_VERDICT

cdef class Feed(Passage):
    cdef object process
    cdef Desk kernel
    cdef readonly ActorId actor
    cdef readonly bint is_busy
    cdef readonly bint is_due
    cdef readonly bint is_stopping
    cdef readonly bint is_cancelled
    cdef readonly bint is_over
    cdef readonly bint has_returned
    cdef readonly int64_t processed
    cdef readonly int64_t strays

    @cython.locals(chore=Chore)
    cpdef object turn(self, Turn turn)
    cdef object judge(self, object verdict)
    cpdef object prod(self)
    cpdef object wake(self)
    cdef bint is_lost(self) except -1
    cpdef object ask_to_stop(self)
    cpdef object interrupt(self)
    cdef object have_obeyed(self)
    cpdef object obey(self)
    cpdef object end(self)
    cpdef bint is_at_home(self) except -1
    cpdef bint is_itself(self) except -1

@cython.final
cdef class Chore:
    cdef Feed feed
    cdef object job
    cdef bint is_done

cdef inline object step_job(Chore chore, object value):
    cdef PyObject *result = NULL
    chore.is_done = False
    chore.is_done = PyIter_Send(chore.job, value, &result) == PYGEN_RETURN
    # PyIter_Send has given us a reference; the cast takes one of its own.
    value = <object>result
    Py_DECREF(value)
    return value

@cython.final
cdef class Fed:
    cdef readonly Feed feed

@cython.locals(fed=Fed)
cpdef object consume_one(Turn turn, object _data)
