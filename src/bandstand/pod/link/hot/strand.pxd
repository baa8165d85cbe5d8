cimport cython
from bandstand.pod.link.hot.frames cimport Frames
from bandstand.pod.link.hot.inbound cimport Inbound
from bandstand.pod.link.hot.tray cimport Tray, Writing

cdef Py_ssize_t MOST_A_TURN
cdef object SOL_SOCKET
cdef object SO_ERROR
cdef tuple GONE
cdef bint OURS
cdef bint THEIRS
cdef str UNTAKEN

cdef class Strand:
    cdef readonly object _sock
    cdef object _send
    cdef object _send_several
    cdef object _receive
    cdef Frames _frames
    cdef Tray _tray
    cdef Inbound _inbound
    cdef object _soon
    cdef public bint is_stirred
    cdef public bint is_waiting
    cdef public bint is_over
    cdef public bint is_mute
    cdef bint _has_written
    cdef bint _is_flushing
    cdef Writing _writing
    cdef Py_ssize_t _written
    cdef list _left

    cpdef object stir(self)
    cpdef object flush_soon(self)
    @cython.locals(is_done=bint)
    cpdef object flush(self)
    @cython.locals(sent=Py_ssize_t, writing=Writing)
    cdef bint write(self, Py_ssize_t budget) except -1
    @cython.locals(sent=Py_ssize_t, rest=Py_ssize_t, left=list)
    cdef Py_ssize_t write_once(self) except -1
    cpdef list unsent(self)
    cpdef object read_out(self)
    cpdef object readable(self)
    @cython.locals(count=Py_ssize_t, was_stirred=bint)
    cpdef bint read(self) except -1
    cpdef object wait(self)
    cpdef object fail(self, object error, object what)
    cpdef object lose(self, object reason, bint is_ours)
