from libc.stdint cimport int64_t
cimport cython

cdef extern from *:
    """
    #include <structmember.h>

    /* Where a field is in its struct; -1 if its descriptor is not a plain slot. */
    static CYTHON_INLINE Py_ssize_t bandstand_slot_of(PyObject *descriptor) {
        PyMemberDef *member;
        if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return -1;
        member = ((PyMemberDescrObject *)descriptor)->d_member;
        return member->type == T_OBJECT_EX ? member->offset : -1;
    }

    static CYTHON_INLINE int bandstand_is_same_text(PyObject *text, PyObject *other) {
        if (text == other) return 1;
        return PyUnicode_GET_LENGTH(text) == PyUnicode_GET_LENGTH(other) && PyUnicode_Compare(text, other) == 0;
    }

    /* A struct without its fields: the caller fills them in, all of them. */
    static CYTHON_INLINE PyObject *bandstand_new_struct(PyObject *type) {
        return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
    }

    static CYTHON_INLINE void bandstand_fill(PyObject *owner, Py_ssize_t slot, PyObject *value) {
        Py_INCREF(value);
        *(PyObject **)((char *)owner + slot) = value;
    }

    /* A Raw of some bytes: its constructor without the way there. The tuple for the argument is used again unless something has kept it. */
    static CYTHON_INLINE PyObject *bandstand_new_raw(PyObject *type, PyObject *data) {
        static PyObject *unused;
        PyObject *raw, *args = unused;
        unused = NULL;
        if (args == NULL && (args = PyTuple_New(1)) == NULL) return NULL;
        Py_INCREF(data);
        PyTuple_SET_ITEM(args, 0, data);
        raw = ((PyTypeObject *)type)->tp_new((PyTypeObject *)type, args, NULL);
        if (unused == NULL && Py_REFCNT(args) == 1) {
            PyTuple_SET_ITEM(args, 0, NULL);
            Py_DECREF(data);
            unused = args;
        }
        else Py_DECREF(args);
        return raw;
    }

    static CYTHON_INLINE PyObject *bandstand_read_field(PyObject *descriptor, Py_ssize_t slot, PyObject *owner) {
        if (slot > 0 && PyDescr_TYPE(descriptor) == Py_TYPE(owner)) {
            PyObject *value = *(PyObject **)((char *)owner + slot);
            if (value != NULL) {
                Py_INCREF(value);
                return value;
            }
        }
        return Py_TYPE(descriptor)->tp_descr_get(descriptor, owner, (PyObject *)Py_TYPE(owner));
    }
    """
    bint is_same_text "bandstand_is_same_text"(str text, str other)
    object new_raw "bandstand_new_raw"(object type, bytes data)
    object new_struct "bandstand_new_struct"(object type)
    void fill "bandstand_fill"(object owner, Py_ssize_t slot, object value)
    Py_ssize_t slot_of "bandstand_slot_of"(object descriptor)
    object read_field "bandstand_read_field"(object descriptor, Py_ssize_t slot, object owner)

cdef object KIND
cdef object TYPE
cdef object DATA
cdef object METADATA
cdef object ID
cdef object TIMESTAMP
cdef object CAUSATION
cdef object TIMEOUT
cdef object CORRELATION

cdef Py_ssize_t KIND_SLOT
cdef Py_ssize_t TYPE_SLOT
cdef Py_ssize_t DATA_SLOT
cdef Py_ssize_t METADATA_SLOT
cdef Py_ssize_t ID_SLOT
cdef Py_ssize_t TIMESTAMP_SLOT
cdef Py_ssize_t CAUSATION_SLOT
cdef Py_ssize_t TIMEOUT_SLOT
cdef Py_ssize_t CORRELATION_SLOT

cdef bint ARE_PLAIN_SLOTS
cdef object FRAME
cdef object METADATA_CLASS

cdef inline object fill_frame(
    str kind, str type_name, object data, str message_id, object timestamp, object causation, object correlation
):
    """Make a frame by its slots. None if the fields are not plain slots."""
    cdef object metadata, frame
    if not ARE_PLAIN_SLOTS:
        return None
    metadata = new_struct(METADATA_CLASS)
    fill(metadata, ID_SLOT, message_id)
    fill(metadata, TIMESTAMP_SLOT, timestamp)
    fill(metadata, CAUSATION_SLOT, causation)
    fill(metadata, CORRELATION_SLOT, correlation)
    fill(metadata, TIMEOUT_SLOT, None)
    frame = new_struct(FRAME)
    fill(frame, KIND_SLOT, kind)
    fill(frame, TYPE_SLOT, type_name)
    fill(frame, DATA_SLOT, data)
    fill(frame, METADATA_SLOT, metadata)
    return frame

cpdef object new_frame(
    str kind, str type_name, object data, str message_id, object timestamp, object causation, object correlation
)
cpdef str kind_of(object frame)
@cython.locals(kind=str)
cpdef bint is_command(object frame) except -1
@cython.locals(kind=str)
cpdef bint is_request(object frame) except -1
cpdef str type_of(object frame)
cpdef object data_of(object frame)
cpdef object metadata_of(object frame)
cpdef str id_of(object metadata)
cpdef object timestamp_of(object metadata)
cpdef object causation_of(object metadata)
cpdef object timeout_of(object metadata)
cpdef object correlation_of(object metadata)

cdef extern from *:
    """
    /* The head of an id, and two pairs of characters behind it: one new string, and no others on the way. */
    static CYTHON_INLINE PyObject *bandstand_join_id(PyObject *head, PyObject *first, PyObject *second) {
        Py_ssize_t size = PyUnicode_GET_LENGTH(head);
        PyObject *id = PyUnicode_New(size + 4, 127);
        if (id != NULL) {
            char *at = (char *)PyUnicode_1BYTE_DATA(id);
            memcpy(at, PyUnicode_1BYTE_DATA(head), size);
            memcpy(at + size, PyUnicode_1BYTE_DATA(first), 2);
            memcpy(at + size + 2, PyUnicode_1BYTE_DATA(second), 2);
        }
        return id;
    }
    """
    str join_id "bandstand_join_id"(str head, object first, object second)

cdef extern from *:
    """
    #include <time.h>

    /* The clock of `time.time_ns`, without an int object. */
    static CYTHON_INLINE int64_t bandstand_system_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }

    /* The first 22 characters of an id: ten for the time, twelve for 60 random bits. */
    static CYTHON_INLINE PyObject *bandstand_make_head(int64_t time_ms, int64_t chance) {
        static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        PyObject *head = PyUnicode_New(22, 127);
        if (head != NULL) {
            char *chars = (char *)PyUnicode_1BYTE_DATA(head);
            int at;
            for (at = 9; at >= 0; at--, time_ms >>= 5) chars[at] = alphabet[time_ms & 31];
            for (at = 21; at >= 10; at--, chance >>= 5) chars[at] = alphabet[chance & 31];
        }
        return head;
    }
    """
    int64_t system_ns "bandstand_system_ns"()
    str make_head "bandstand_make_head"(int64_t time_ms, int64_t chance)

cdef object ALPHABET
cdef int TAIL_BITS
cdef int64_t NS_PER_MS
cdef tuple PAIRS

@cython.final
cdef class IdGenerator:
    cdef object _draw
    cdef int64_t _end_ns
    cdef str _head
    cdef int64_t _head_bits
    cdef object _now_ns
    cdef bint _is_system_clock
    cdef int64_t _tail
    cdef readonly object last_ms

    @cython.locals(now=int64_t, tail=int64_t)
    cpdef str make(self)
    cpdef int64_t now_ms(self) except? -1
    @cython.locals(high=int64_t, low=int64_t)
    cdef int64_t _start_millisecond(self, int64_t now) except? -1
