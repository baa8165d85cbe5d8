cimport cython

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef extern from "Python.h":
    void PyErr_SetObject(object kind, object value) noexcept

# Set what an iterator that ends by `raise StopIteration`, which is free in C, has to say at its end. Most values can be set as
# they are; of a tuple or an exception Python would make something else.
cdef inline void return_value(object value) noexcept:
    if isinstance(value, (tuple, BaseException)):
        value = StopIteration(value)
    PyErr_SetObject(StopIteration, value)

cdef int FRESH
cdef int WAITING
cdef int EXPIRED
cdef int CANCELLED
cdef int LEFT
cdef double FOREVER
cdef double SHORTEST

cdef class Parked:
    cdef public int state
    cdef public double ms
    cdef public object token
    cdef object alarm
    cdef object host
    cdef object future
    cdef unsigned long thread
    cdef object latch

    cpdef bint begin(self) except -1
    cpdef bint stand(self) except -1
    cpdef bint leave(self, int state) except -1
    cpdef object give_back(self)
    cpdef object finish(self)
    cdef object park(self)
    cpdef object close(self)
    cdef object block(self)
    @cython.locals(seconds=double)
    cdef double patience(self, double until) except -2
    cdef object arm(self)
    cdef object disarm(self)
    cpdef object expire(self)
    cpdef object interrupt(self)
    cpdef object abandon(self)
    cpdef object wake(self)
    cpdef object release(self)
    cdef bint is_gone(self) except -1
    cdef bint is_lost(self) except -1
    cdef object refused_again(self)
