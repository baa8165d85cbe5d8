cimport cython
from bandstand.core.kernel cimport Kernel
from bandstand.pod.link.codec cimport Packet, plain_size
from bandstand.pod.link.receiver cimport FrameDispatcher, Receiver

# System calls on a socket that does not block. They return -1 if the socket is not ready, and raise OSError.
cdef extern from *:
    """
    #include <errno.h>
    #include <sys/socket.h>

    static CYTHON_UNUSED Py_ssize_t bandstand_socket_result(Py_ssize_t count) {
        if (count >= 0) return count;
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return -1;
        PyErr_SetFromErrno(PyExc_OSError);
        return -2;
    }

    static CYTHON_UNUSED Py_ssize_t bandstand_send_now(PyObject *sock, int fd, PyObject *data) {
        (void)sock;
        return bandstand_socket_result(send(fd, PyByteArray_AS_STRING(data), (size_t)PyByteArray_GET_SIZE(data), 0));
    }

    static CYTHON_UNUSED Py_ssize_t bandstand_receive_now(PyObject *sock, int fd, PyObject *store, Py_ssize_t start, int is_long) {
        char *place = PyByteArray_AS_STRING(store) + start;
        size_t room = (size_t)(PyByteArray_GET_SIZE(store) - start);
        Py_ssize_t count;
        (void)sock;
        if (is_long) {
            Py_BEGIN_ALLOW_THREADS
            count = recv(fd, place, room, 0);
            Py_END_ALLOW_THREADS
        } else {
            count = recv(fd, place, room, 0);
        }
        return bandstand_socket_result(count);
    }

    static CYTHON_UNUSED int bandstand_has_socket_error(PyObject *sock, int fd) {
        int error = 0;
        socklen_t size = sizeof(error);
        (void)sock;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        return error != 0;
    }

    static CYTHON_UNUSED PyObject *bandstand_copy_range(PyObject *store, Py_ssize_t start, Py_ssize_t size) {
        return PyBytes_FromStringAndSize(PyByteArray_AS_STRING(store) + start, size);
    }
    """
    Py_ssize_t send_now "bandstand_send_now"(object sock, int fd, bytearray data) except -2
    Py_ssize_t receive_now "bandstand_receive_now"(object sock, int fd, bytearray store, Py_ssize_t start, bint is_long) except -2
    bint has_socket_error "bandstand_has_socket_error"(object sock, int fd) except -1
    object copy_range "bandstand_copy_range"(bytearray store, Py_ssize_t start, Py_ssize_t size)

cdef int ACKS
cdef int ANSWERS
cdef int ANSWER_LANE
cdef object CANCEL
cdef int CHUNK
cdef int LANES
cdef int MESSAGES
cdef Py_ssize_t BATCH_BYTES
cdef Py_ssize_t BATCH_ENTRIES
cdef Py_ssize_t CHUNK_HEADER_SIZE
cdef Py_ssize_t HEADER_SIZE
cdef Py_ssize_t MAX_FRAME
cdef Py_ssize_t MAX_HELD
cdef Py_ssize_t NEXT_HEADERS
cdef Py_ssize_t READ_SIZE
cdef Py_ssize_t SHORT_CALL
cdef Py_ssize_t SHORT_FRAME
cdef Py_ssize_t TURN_BYTES
cdef Py_ssize_t WRITE_BYTES
cdef tuple PEER_GONE
cdef bint OURS
cdef bint THEIRS
cdef str NOT_RECEIVED
cdef str NOT_WRITTEN
cdef object encode_into

@cython.final
cdef class MessageBatch:
    cdef readonly list entries
    cdef public Py_ssize_t size
    cdef public Py_ssize_t end

cdef class Transport

@cython.final
cdef class WriteQueue:
    cdef Receiver _receiver
    cdef Transport _transport
    cdef public bint is_ready
    cdef readonly list buffers
    cdef readonly list batches
    cdef list _full
    cdef Py_ssize_t _full_count
    cdef list _open
    cdef list _outgoing
    cdef Py_ssize_t _sending_count
    cdef Py_ssize_t _next_number
    cdef list _urgent
    cdef object _last_frame
    cdef bytearray _store

    @cython.locals(batch=MessageBatch)
    cpdef object append_message(self, int lane, object code, object data)
    @cython.locals(batch=MessageBatch)
    cpdef object append_ask(self, int lane, object code, object number, object data)
    @cython.locals(batch=MessageBatch)
    cpdef object append_answer(self, object number, object outcome, object value)
    @cython.locals(batch=MessageBatch)
    cpdef object append_cancel(self, int lane, object number)
    @cython.locals(batch=MessageBatch)
    cdef MessageBatch open_batch(self, int lane)
    @cython.locals(store=bytearray, receiver=Receiver, batch=MessageBatch, size=Py_ssize_t, lane=int)
    cpdef bint take(self) except -1
    cdef object replace_store(self)
    @cython.locals(batch=MessageBatch)
    cdef bint has_batch(self, int lane) except -1
    @cython.locals(batch=MessageBatch)
    cdef MessageBatch take_batch(self, int lane)
    @cython.locals(lane=int)
    cdef object take_chunk(self)

@cython.locals(end=Py_ssize_t, size=Py_ssize_t)
cdef Py_ssize_t encode_frame(bytearray store, Py_ssize_t at, int kind, list entries) except -1

@cython.final
cdef class FrameReader:
    cdef FrameDispatcher _dispatcher
    cdef object _buffers
    cdef bytearray _store
    cdef object _view
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef Py_ssize_t _last_count
    cdef object _chunk

    @cython.locals(count=Py_ssize_t)
    cpdef Py_ssize_t receive(self, object sock, int fd) except -2
    @cython.locals(size=Py_ssize_t)
    cpdef object dispatch_received(self, Py_ssize_t count)
    @cython.locals(store=bytearray, at=Py_ssize_t, start=Py_ssize_t, available=Py_ssize_t, size=Py_ssize_t, kind=int)
    cdef bint dispatch_next(self) except -1
    @cython.locals(available=Py_ssize_t)
    cdef bint start_chunk(self, Py_ssize_t start, Py_ssize_t size) except -1
    @cython.locals(rest=Py_ssize_t)
    cdef object move_rest(self)
    @cython.locals(grown=bytearray)
    cdef object grow(self, Py_ssize_t size)

@cython.final
cdef class Transport:
    cdef object _sock
    cdef readonly int fd
    cdef readonly object event_loop
    cdef object _call_soon
    cdef FrameReader _reader
    cdef WriteQueue _queue
    cdef Receiver _receiver
    cdef object _on_lost
    cdef bint _is_flush_scheduled
    cdef bint _is_flushing
    cdef bint _has_written
    cdef Py_ssize_t _written
    cdef readonly bint is_write_blocked
    cdef readonly bint is_closed
    cdef bint _is_peer_gone
    cdef bint _has_failed
    cdef list _waiters
    cdef Kernel _kernel
    cdef list _held

    cpdef object schedule_flush(self)
    cpdef object flush_scheduled(self)
    @cython.locals(is_done=bint)
    cpdef object flush(self)
    @cython.locals(count=Py_ssize_t)
    cdef bint write(self, Py_ssize_t limit) except -1
    @cython.locals(buffers=list, count=Py_ssize_t, rest=Py_ssize_t)
    cdef Py_ssize_t write_once(self) except -2
    cdef object wait_writable(self)
    cpdef object read_all(self)
    @cython.locals(has_read=bint)
    cpdef object on_readable(self)
    @cython.locals(kernel=Kernel, sibling=Kernel, siblings=list)
    cdef object hold_kernels(self)
    @cython.locals(kernel=Kernel)
    cdef object run_held_kernels(self)
    @cython.locals(count=Py_ssize_t, was_scheduled=bint)
    cdef bint read(self) except -1
    cdef object fail(self, object error, str what)
    cdef object lose(self, str reason, bint is_ours)
