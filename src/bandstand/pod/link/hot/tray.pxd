cimport cython
from bandstand.pod.link.hot.plain cimport plain_weight

cdef int ACKS
cdef int ANSWERS
cdef int ANSWER_LANE
cdef int CHUNK
cdef int LANES
cdef int MESSAGES
cdef Py_ssize_t BATCH
cdef Py_ssize_t MOST_BYTES
cdef Py_ssize_t MOST_ENTRIES

cpdef bytes framed(int kind, bytes body)

@cython.final
cdef class Piece:
    cdef readonly list flat
    cdef public Py_ssize_t weight

@cython.final
cdef class Writing:
    cdef readonly list buffers
    cdef readonly list pieces

@cython.final
cdef class Tray:
    cdef object _acks
    cdef object _hurry
    cdef public bint is_ready
    cdef list _full
    cdef list _open
    cdef list _departures
    cdef Py_ssize_t _departing
    cdef Py_ssize_t _next_stream
    cdef list _preface
    cdef object _last

    @cython.locals(piece=Piece)
    cpdef list flat(self, int lane)
    @cython.locals(piece=Piece)
    cpdef object weigh(self, int lane, object data)
    @cython.locals(frames=list, acks=list, pieces=list, buffers=list, frame=bytes, piece=Piece, size=Py_ssize_t, lane=int)
    cpdef Writing take(self)
    @cython.locals(piece=Piece)
    cdef bint has_piece(self, int lane) except -1
    @cython.locals(piece=Piece)
    cdef Piece take_piece(self, int lane)
    @cython.locals(lane=int)
    cdef object take_chunk(self, list buffers)
