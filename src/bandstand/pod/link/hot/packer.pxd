cimport cython
from bandstand.pod.link.hot.plain cimport is_plain
from bandstand.actor.handle cimport Handle
from bandstand.actor.dispatch cimport Method

cdef object UNSET

@cython.final
cdef class Packer:
    cdef tuple _carries
    cdef object _check
    cdef object _bounds
    cdef dict _budgets

    @cython.locals(carried=tuple)
    cpdef object pack(self, Handle handle, Method method, object data)
    @cython.locals(carried=list)
    cpdef tuple carried(self)

cpdef object default_of(object variable)
