cimport cython
from bandstand.bus.wire cimport LineSplitter
from bandstand.bus.frame cimport is_request
from bandstand.bus.ingress cimport ClientIngress
from bandstand.bus.wire cimport read_plain, write_frame

cdef object HTTP
cdef Py_ssize_t INITIAL_WINDOW
cdef Py_ssize_t MAX_REPLY_BYTES

cdef class EventCache:
    cdef public tuple last

cdef EventCache EVENT_CACHE

@cython.locals(cache=EventCache, last=tuple)
cdef bytes write_event(object frame)

@cython.final
cdef class RequestReader:
    cdef NdjsonConnection _connection
    cdef object _ingress
    cdef object _admit
    cdef ClientIngress _client_ingress
    cdef Py_ssize_t _window
    cdef Py_ssize_t _max_line
    cdef Py_ssize_t in_flight
    cdef Py_ssize_t _allowed
    cdef Py_ssize_t _largest
    cdef bint is_stopped
    cdef bint is_foreign
    cdef bint _has_message
    cdef object _held
    cdef list _batch
    cdef Py_ssize_t _at
    cdef LineSplitter _splitter

    cdef object feed(self, bytes chunk)
    cpdef object settle(self, Py_ssize_t size)
    cdef object end(self)
    cdef object stop(self)
    cdef bint admit_all(self) except -1
    @cython.locals(connection=NdjsonConnection, text=bytes, takes_credit=bint, is_first=bint)
    cdef bint _admit_lines(self) except -1
    cdef bint _admit_frame(self, object frame) except -1
    cdef object _read_slowly(self, bytes text)
    @cython.locals(takes_credit=bint)
    cdef bint _admit_held(self) except -1
    cdef bint _has_credit(self) except -1

@cython.final
cdef class LineTimeout:
    cdef NdjsonConnection _connection
    cdef object _event_loop
    cdef object _since
    cdef object _timer
    cdef double timeout_s

    cdef object feed(self, bytes data)
    cdef object cancel(self)

@cython.final
cdef class NdjsonConnection:
    cdef readonly object transport
    cdef readonly str name
    cdef readonly bint is_writable
    cdef readonly RequestReader reader
    cdef LineTimeout _line_timeout
    cdef object _ingress
    cdef object _unsent
    cdef object _may_open
    cdef object _on_close
    cdef object _event_loop
    cdef Py_ssize_t _write_high
    cdef Py_ssize_t _write_most
    cdef readonly list unwritten
    cdef Py_ssize_t _out_bytes
    cdef bint _closes_at_eof
    cdef bint _is_open
    cdef bint _is_closed
    cdef bint _is_woken
    cdef bint _is_blocked
    cdef bint _is_paused
    cdef bint _is_at_eof
    cdef bint _is_unread
    cdef bint _has_left
    cdef bint _is_slowed
    cdef object _first
    cdef Py_ssize_t _max_first
    cdef bytes _received

    @cython.locals(line=bytes)
    cpdef object deliver(self, object frame, bint settles)
    cpdef object resume(self)
    cpdef object stop(self)
    cpdef object close(self)
    cpdef object abort(self)
    cpdef object data_received(self, bytes data)
    cdef bint is_reading(self) except -1
    cdef object on_line_timeout(self)
    @cython.locals(reader=RequestReader, is_all=bint)
    cdef object _continue_reading(self)
    cdef object _pause_reading(self)
    cdef bytes _check_first(self, object first, bytes data)
    cdef bint _poll_left(self) except -1
    @cython.locals(lines=list, data=bytes, size=Py_ssize_t)
    cdef object _flush(self)
    cdef object _close_if_done(self)
