cimport cython
from libc.stdint cimport int64_t

cdef Py_ssize_t FIRST_ROOM

cdef class Store:
    cdef readonly bint conflates
    cdef list entries
    cdef list returned
    cdef Py_ssize_t room
    cdef Py_ssize_t head
    cdef readonly Py_ssize_t count

    @cython.locals(room=Py_ssize_t, fresh=list)
    cdef object make_room(self)
    @cython.locals(fresh=list)
    cdef object rest(self)
    cdef object append(self, object item)
    @cython.locals(at=Py_ssize_t)
    cdef object shift(self)
    @cython.locals(at=Py_ssize_t, step=Py_ssize_t)
    cdef object insert_returned(self, object item, int64_t number)
    @cython.locals(at=Py_ssize_t)
    cdef object replace(self, object item)
    cdef object newest(self)
    @cython.locals(at=Py_ssize_t, old=list)
    cdef object move(self, list fresh, Py_ssize_t room)
    @cython.locals(old=list)
    cdef object shrink(self, list fresh)
