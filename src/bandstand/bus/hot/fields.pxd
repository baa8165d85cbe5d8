cdef extern from *:
    """
    static PyObject *bandstand_read(PyObject *descriptor, PyObject *owner) {
        return Py_TYPE(descriptor)->tp_descr_get(descriptor, owner, (PyObject *)Py_TYPE(owner));
    }
    """
    object bandstand_read(object descriptor, object owner)

cdef object KIND
cdef object TYPE
cdef object DATA
cdef object METADATA
cdef object ID
cdef object TIMEOUT
cdef object CORRELATION

cdef inline object read(object descriptor, object owner):
    return bandstand_read(descriptor, owner)

cpdef str kind_of(object frame)
cpdef str type_of(object frame)
cpdef object data_of(object frame)
cpdef object metadata_of(object frame)
cpdef str id_of(object metadata)
cpdef object timeout_of(object metadata)
cpdef object correlation_of(object metadata)
