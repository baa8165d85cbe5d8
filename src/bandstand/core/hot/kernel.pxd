cimport cython
from libc.stdint cimport int64_t
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.context cimport ActorContext
from bandstand.core.ids cimport ActorId
from bandstand.core.mailbox cimport Ring, pop
from bandstand.core.mailbox cimport RunQueue
from bandstand.core.hot.sending cimport Sending

cdef Py_ssize_t SHRINK_ROOM
cdef int DATA
cdef int FAIL_REASON
cdef int64_t MILLISECOND
cdef int NORMAL
cdef int PANIC
cdef int RUNNING
cdef int STOPPED
cdef int STOPPING
cdef int SYSTEM
cdef Py_ssize_t MAX_PACE
cdef object IO
cdef object ZERO
cdef int QUICK
cdef int SLOW
cdef int64_t SLOW_AFTER
cdef object OK_VERDICT
cdef object STOP_VERDICT
cdef object FAIL_VERDICT

cdef extern from "Python.h":
    ctypedef struct _Awaiting "PyAsyncMethods":
        void* am_await
    ctypedef struct _Kind "PyTypeObject":
        _Awaiting* tp_as_async
    _Kind* _kind_of "Py_TYPE"(object value)

cdef inline bint can_await(object value):
    return _kind_of(value).tp_as_async != NULL and _kind_of(value).tp_as_async.am_await != NULL

# A behavior is called by every message: as C calls what has the vectorcall protocol, without a look whether it is a method.
cdef extern from *:
    """
    static CYTHON_INLINE PyObject *bandstand_call(PyObject *function, PyObject *first, PyObject *second) {
        PyObject *arguments[3] = {NULL, first, second};
        vectorcallfunc call = PyVectorcall_Function(function);
        size_t count = 2 | PY_VECTORCALL_ARGUMENTS_OFFSET;
        if (call == NULL) return PyObject_Vectorcall(function, arguments + 1, count, NULL);
        return call(function, arguments + 1, count, NULL);
    }
    """
    object call "bandstand_call"(object function, object first, object second)

cpdef bint is_coroutine(object value) except -1

cdef class Kernel(Sending):
    cdef Py_ssize_t _max_msgs
    cdef Py_ssize_t _max_actors
    cdef int64_t _max_tick
    cdef int64_t _ticks
    cdef int64_t _tick_end
    cdef int64_t _looked
    cdef Py_ssize_t _since
    cdef Py_ssize_t _pace
    cdef bint _is_time_up
    cdef bint _is_overfull
    cdef public bint _ticking
    cdef public object _leaving
    cdef readonly Py_ssize_t _in_flight
    cdef public Py_ssize_t _watched_fds
    cdef public bint _watching
    cdef object _message
    cdef int64_t _messages
    cdef public bint _abroad
    cdef public object _shuffle

    cpdef object _perform(self, ActorCell cell, object coroutine, object context)
    cpdef object _continue(self, object driver)
    cpdef object _poll_io(self)
    cpdef object _rearm_io(self, object watch)
    cpdef object _check_io(self, object watch, object event)
    @cython.final
    @cython.locals(turn=ActorContext)
    cdef ActorContext _make_turn(self, ActorCell cell)
    @cython.final
    cdef object _took_io(self, ActorCell cell, ActorContext turn, object event)
    @cython.final
    @cython.locals(ring=Ring)
    cdef object _settle(self, ActorCell cell)
    @cython.final
    cdef object _raised(self, ActorCell cell, ActorContext turn, object data, object error)
    @cython.final
    cdef object _panic(self, ActorCell cell, object error)

    cpdef object _leave(self, object error)
    @cython.locals(start=int64_t, end=int64_t, before=int64_t, overfull=bint)
    cpdef int64_t _tick(self) except? -1
    @cython.final
    @cython.locals(visits=Py_ssize_t, queue=RunQueue, cell=ActorCell, seen=Py_ssize_t)
    cdef object _run(self, int64_t start, bint overfull)
    @cython.final
    @cython.locals(now=int64_t)
    cdef bint _look_at_clock(self, ActorCell cell) except -1
    @cython.final
    @cython.locals(turn=ActorContext, ring=Ring, budget=Py_ssize_t, handled=Py_ssize_t, limit=Py_ssize_t, looked=Py_ssize_t, is_due=bint)
    cdef Py_ssize_t _visit(self, ActorCell cell) except -1
    @cython.final
    @cython.locals(turn=ActorContext)
    cdef object _forget_sender(self, ActorCell cell)
    @cython.final
    cdef object _judge(self, ActorCell cell, object verdict, bint may_perform)
