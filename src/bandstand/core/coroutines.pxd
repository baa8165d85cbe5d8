cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
# Before the cimports below, which lead back here: the kernel needs this declaration.
cdef extern from "Python.h":
    ctypedef struct _AsyncMethods "PyAsyncMethods":
        void* am_await
    ctypedef struct _Type "PyTypeObject":
        _AsyncMethods* tp_as_async
    _Type* _type_of "Py_TYPE"(object value)

cdef inline bint can_await(object value):
    return _type_of(value).tp_as_async != NULL and _type_of(value).tp_as_async.am_await != NULL

cpdef bint is_coroutine(object value) except -1

from bandstand.core.kernel cimport Kernel
from bandstand.core.mailbox cimport ActorCell

cdef object OK_VERDICT
cdef int INIT
cdef int NORMAL
cdef int STOPPED
cdef int STOPPING
cdef object SUSPENDED
cdef object _enter_task
cdef object _leave_task
cdef object current_task
cdef bint HAS_EAGER_TASKS
cdef Py_ssize_t MAX_IDLE
cdef int THIS_LOOP
cdef int HOST_CALL
cdef bint BEGUN
cdef bint NOT_BEGUN

cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    PySendResult PyIter_Send(object coroutine, object value, PyObject **result) except PYGEN_ERROR
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1

cdef class CoroutineRunner

@cython.final
cdef class CoroutineStep:
    cdef readonly bint is_done
    cpdef object begin(self, object coroutine, object context)

cdef inline object begin_step(CoroutineStep step, object coroutine, object context):
    cdef PyObject *result = NULL
    cdef object value
    PyContext_Enter(context)
    try:
        step.is_done = PyIter_Send(coroutine, None, &result) == PYGEN_RETURN
    finally:
        PyContext_Exit(context)
    # The result of PyIter_Send is a new reference, and the cast takes another one.
    value = <object>result
    Py_DECREF(value)
    return value

@cython.final
cdef class DriverFuture:
    cdef object _driver
    cdef bint _is_awaited
    cdef readonly bint _is_over
    cdef readonly int source

    cpdef bint done(self)
    cpdef bint cancel(self, object msg=*)

@cython.final
cdef class TaskDriver:
    cdef readonly object pool
    cdef readonly CoroutineRunner runner
    cdef public object task
    cdef public object idle_future
    cdef public bint has_started
    cdef readonly ActorCell cell
    cdef readonly object job
    cdef readonly object context
    cdef public bint has_begun
    cdef public object yielded
    cdef readonly bint is_waiting
    cdef public object late_cancel
    cdef readonly Py_ssize_t serial
    cdef readonly bint is_listed
    cdef object _wake

    cpdef object take(self, ActorCell cell, object job, object context, bint has_begun, object yielded)
    @cython.locals(future=DriverFuture)
    cpdef bint wait_for(self, object yielded) except -1
    cpdef object future_done(self, DriverFuture future)
    cpdef object check_again(self)
    cpdef object move_to_task(self)
    cpdef object wake_task(self)
    cpdef bint end_wait(self) except -1
    @cython.locals(future=DriverFuture)
    cpdef object stop_waiting(self)
    cpdef object clear(self)
    cpdef object release(self)
    cpdef object cancel(self)
    cpdef bint is_free(self) except -1
    cpdef bint is_busy(self)

@cython.final
cdef class TaskPool:
    cdef CoroutineRunner _runner
    cdef readonly object host
    cdef readonly object context
    cdef readonly bint is_closing
    cdef CoroutineStep _step
    cdef list _free
    cdef readonly set _all

    @cython.locals(driver=TaskDriver)
    cpdef object start(self, ActorCell cell, object job, object context, bint is_inside)
    @cython.locals(driver=TaskDriver)
    cpdef object start_later(self, ActorCell cell, object job, object context)
    @cython.locals(cell=ActorCell)
    cpdef object advance(self, TaskDriver driver, bint is_inside)
    cdef object _step_for(self, TaskDriver driver, object job, object context, bint is_inside)
    cpdef DriverFuture new_future(self, TaskDriver driver, int source)
    cpdef object begin_step(self, TaskDriver driver, ActorCell cell)
    cpdef object end_step(self)
    cpdef bint has_ended(self, ActorCell cell)
    cpdef object resume(self, ActorCell cell, object verdict, object failure)
    @cython.final
    @cython.locals(driver=TaskDriver)
    cdef TaskDriver _free_driver(self)
    @cython.final
    cdef object _offer(self, TaskDriver driver)
    @cython.locals(driver=TaskDriver)
    cpdef object forget(self, TaskDriver driver)
    @cython.locals(driver=TaskDriver)
    cpdef object begin_closing(self)
    @cython.locals(driver=TaskDriver)
    cpdef list busy(self)

@cython.final
cdef class CoroutineRunner:
    cdef Kernel _kernel
    cdef public TaskPool pool
    cdef readonly object home_context
    cdef public object host_context
    cdef public bint may_inline
    cdef readonly Py_ssize_t in_flight
    cdef public Py_ssize_t paused
    cdef public object stepper
    cdef dict _unstarted

    @cython.locals(kernel=Kernel, pool=TaskPool, was_foreign=bint)
    cdef object start(self, ActorCell cell, object coroutine, object context)
    @cython.locals(pool=TaskPool)
    cdef object start_later(self, ActorCell cell, object coroutine, object context)
    cpdef TaskPool make_pool(self)
    cpdef bint has_unstarted(self)
    cpdef bint is_bound_to_pool(self)
    cpdef object start_unstarted(self)
    @cython.locals(pool=TaskPool)
    cpdef object start_exit_hooks(self)
    cpdef object close_unstarted(self)
    @cython.locals(cell=ActorCell)
    cpdef object _withdraw(self, object unstarted)
    cpdef object suspend(self, ActorCell cell, object driver)
    @cython.locals(pool=TaskPool)
    cpdef object new_future(self, int source)
    cpdef object wake(self, ActorCell cell)
    @cython.locals(kernel=Kernel)
    cpdef object wake_in_host_call(self, ActorCell cell)
    @cython.locals(kernel=Kernel, pool=TaskPool, was_foreign=bint)
    cdef object resume(self, object driver)
    cpdef object begin_step(self, ActorCell cell)
    cpdef object end_step(self)
    cpdef bint has_exited(self, ActorCell cell)
    @cython.locals(kernel=Kernel)
    cpdef object finished(self, ActorCell cell, object verdict, object error, bint was_cancelled)
