cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from bandstand.core.context cimport ActorContext
from bandstand.core.ids cimport ActorId
from bandstand.core.timer_wheel cimport Timer

cdef int SYSTEM
cdef int CONTROL
cdef int MANAGEMENT
cdef int DATA
cdef int LAST_RESERVED
cdef int INIT
cdef int UNTIMED

# Direct access to the slots of a list. Moving an object keeps its reference, and storing the object that is in the slot already changes no
# reference count. A free slot holds None, or the tag and sender of its last message. Only `bandstand_put` can run other code (a
# finalizer), and it does so as its last action.
cdef extern from *:
    """
    static CYTHON_INLINE int bandstand_has(PyObject *list, Py_ssize_t at, PyObject *what) {
        return ((PyListObject *)list)->ob_item[at] == what;
    }
    static CYTHON_INLINE PyObject *bandstand_slot(PyObject *list, Py_ssize_t at) {
        return ((PyListObject *)list)->ob_item[at];
    }
    static CYTHON_INLINE void bandstand_put(PyObject *list, Py_ssize_t at, PyObject *what) {
        PyObject **slot = ((PyListObject *)list)->ob_item + at;
        PyObject *old = *slot;
        if (old != what) {
            Py_INCREF(what);
            *slot = what;
            Py_DECREF(old);
        }
    }
    static CYTHON_INLINE PyObject *bandstand_take(PyObject *list, Py_ssize_t at) {
        PyObject **slot = ((PyListObject *)list)->ob_item + at;
        PyObject *what = *slot;
        Py_INCREF(Py_None);
        *slot = Py_None;
        return what;
    }
    /* Double the length of a list. What is before `cut` moves behind the old end, so that the entries from `cut` on are in order. This never
       starts a garbage collection, and growing in place keeps the memory pages, where a copy would touch as many again. */
    static int bandstand_double(PyObject *list, Py_ssize_t cut) {
        Py_ssize_t size = PyList_GET_SIZE(list), at;
        PyObject **slots;
    #ifdef Py_GIL_DISABLED
        /* Free-threaded builds allocate the slots of a list in another way. */
        while (PyList_GET_SIZE(list) < 2 * size) {
            if (PyList_Append(list, Py_None) < 0) {
                PyList_SetSlice(list, size, PyList_GET_SIZE(list), NULL);
                return -1;
            }
        }
        slots = ((PyListObject *)list)->ob_item;
    #else
        slots = (PyObject **)PyMem_Realloc(((PyListObject *)list)->ob_item, 2 * size * sizeof(PyObject *));
        if (slots == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        ((PyListObject *)list)->ob_item = slots;
        ((PyListObject *)list)->allocated = 2 * size;
        for (at = size; at < 2 * size; at++) {
            Py_INCREF(Py_None);
            slots[at] = Py_None;
        }
        Py_SET_SIZE(list, 2 * size);
    #endif
        for (at = 0; at < cut; at++) {
            PyObject *none = slots[size + at];
            slots[size + at] = slots[at];
            slots[at] = none;
        }
        return 0;
    }
    /* Move all entries of `list`, from `cut` on first, to the beginning of `spare`, a longer list of None. Leaves `list` empty. */
    static CYTHON_INLINE void bandstand_move(PyObject *list, Py_ssize_t cut, PyObject *spare) {
        Py_ssize_t size = PyList_GET_SIZE(list), at;
        PyObject **from = ((PyListObject *)list)->ob_item, **to = ((PyListObject *)spare)->ob_item;
        for (at = 0; at < size; at++) Py_DECREF(to[at]);
        memcpy(to, from + cut, (size - cut) * sizeof(PyObject *));
        memcpy(to + size - cut, from, cut * sizeof(PyObject *));
        Py_SET_SIZE(list, 0);
    }
    """
    bint bandstand_has(list entries, Py_ssize_t at, object what) noexcept
    PyObject *bandstand_slot(list entries, Py_ssize_t at) noexcept
    void bandstand_put(list entries, Py_ssize_t at, object what) noexcept
    object bandstand_take(list entries, Py_ssize_t at)
    void bandstand_move(list entries, Py_ssize_t cut, list spare) noexcept
    int bandstand_double(list entries, Py_ssize_t cut) except -1

cdef object ZERO
cdef list BLANK
cdef list SPARE
cdef Py_ssize_t SPARE_ROOM
cdef list NO_ENTRIES

@cython.final
cdef class Ring:
    cdef object data
    cdef object tag
    cdef object sender
    cdef list entries
    cdef Py_ssize_t room
    cdef Py_ssize_t head
    cdef readonly Py_ssize_t count

    cpdef Py_ssize_t push(self, object data, object tag, object sender) except -1
    cpdef object pop(self, ActorContext ctx)
    cpdef bint next_is(self, object tag) except -1
    cpdef object peek(self)
    @cython.locals(at=Py_ssize_t, taken=Py_ssize_t, entries=list)
    cpdef Py_ssize_t take_alike(self, list items, Py_ssize_t most, object tag, object strange) except -1
    @cython.locals(at=Py_ssize_t, entries=list)
    cpdef tuple shift(self)
    @cython.locals(at=Py_ssize_t, entries=list)
    cpdef tuple pop_newest(self)
    cdef tuple take_only(self)
    @cython.locals(at=Py_ssize_t, entries=list)
    cpdef object push_front(self, object data, object tag, object sender)
    @cython.locals(at=Py_ssize_t)
    cpdef bint has(self, object sender) except -1
    @cython.locals(left=Py_ssize_t, message=tuple, found=tuple)
    cpdef tuple pull(self, object sender)
    @cython.locals(entries=list, spare=list)
    cdef object grow(self)
    @cython.locals(entries=list)
    cdef object shrink(self)

cdef inline object widen(Ring ring):
    bandstand_double(ring.entries, 3 * ring.head)
    ring.room *= 2

cdef inline object move(Ring ring, list spare):
    bandstand_move(ring.entries, 3 * ring.head, spare)
    ring.entries = spare
    ring.head = 0
    ring.room = len(spare) // 3

cdef inline void forget_tags(list entries) noexcept:
    cdef Py_ssize_t at
    for at in range(1, len(entries), 3):
        bandstand_put(entries, at, None)

@cython.nonecheck(False)
cdef inline Py_ssize_t push(Ring ring, object data, object tag, object sender) except -1:
    cdef Py_ssize_t at
    while ring.count == ring.room:
        ring.grow()
    ring.count += 1
    if ring.room == 1:
        ring.data = data
        if ring.sender is not sender:
            ring.sender = sender
        if ring.tag is not tag:
            ring.tag = tag
        return 1
    at = 3 * ((ring.head + ring.count - 1) & (ring.room - 1))
    bandstand_put(ring.entries, at, data)
    bandstand_put(ring.entries, at + 2, sender)
    bandstand_put(ring.entries, at + 1, tag)
    return ring.count

# Callers pass a ctx that is not None.
@cython.nonecheck(False)
cdef inline object pop(Ring ring, ActorContext ctx):
    cdef Py_ssize_t at
    cdef object data, tag, sender
    ring.count -= 1
    if ring.room == 1:
        data = ring.data
        ring.data = None
        if ring.sender is not ZERO or ctx.sender is not ZERO:
            sender = ring.sender
            ring.sender = None
            tag = ring.tag
            ctx.tag = tag
            ctx.sender = sender
        elif ctx.tag is not ring.tag:
            tag = ring.tag
            ctx.tag = tag
        return data
    at = 3 * ring.head
    ring.head = (ring.head + 1) & (ring.room - 1)
    data = bandstand_take(ring.entries, at)
    if ctx.sender is not ZERO or not bandstand_has(ring.entries, at + 2, ZERO):
        sender = bandstand_take(ring.entries, at + 2)
        tag = <object>bandstand_slot(ring.entries, at + 1)
        ctx.tag = tag
        ctx.sender = sender
    elif not bandstand_has(ring.entries, at + 1, ctx.tag):
        tag = <object>bandstand_slot(ring.entries, at + 1)
        ctx.tag = tag
    return data

cdef list take_spare()

@cython.locals(ring=Ring)
cpdef Ring new_ring()

cdef class Lanes:
    cdef Py_ssize_t cap
    cdef Py_ssize_t reserve
    cdef Py_ssize_t unreserved
    cdef Py_ssize_t coming_management
    cdef Py_ssize_t coming_control
    cdef Py_ssize_t surplus
    cdef Ring management
    cdef Ring control
    cdef Ring system
    cdef bint closing
    # The fields that every message touches come last here and first in ActorCell, so that they share cache lines: with many actors each
    # line has to be fetched.
    cdef Py_ssize_t limit
    cdef Py_ssize_t coming_data
    cdef Py_ssize_t urgent
    cdef Ring data

    @cython.final
    cdef object set_cap(self, Py_ssize_t cap, Py_ssize_t reserve)
    @cython.final
    @cython.locals(ring=Ring)
    cdef bint offer(self, int lane, object data, object tag, object sender) except -1
    @cython.final
    cdef bint promise(self, int lane)
    @cython.final
    @cython.locals(ring=Ring)
    cdef object arrive(self, int lane, object data, object tag, object sender)
    @cython.final
    cdef Py_ssize_t coming(self, int lane)
    @cython.final
    cdef object add_coming(self, int lane, Py_ssize_t change)
    @cython.final
    @cython.locals(ring=Ring)
    cdef object put_back(self, int lane, object data, object tag, object sender)
    @cython.final
    @cython.locals(ring=Ring, message=tuple)
    cdef tuple take_out(self, int lane, object sender)
    @cython.final
    @cython.locals(ring=Ring)
    cdef bint offer_system(self, object data, object tag, object sender) except -1
    @cython.final
    @cython.locals(ring=Ring)
    cdef object offer_reserved(self, object data, object tag, object sender)
    @cython.final
    @cython.locals(ring=Ring)
    cdef object take_urgent(self, ActorContext ctx)
    @cython.final
    cdef object took_system(self, int tag)
    @cython.final
    cdef object take_messages_of(self, Lanes other)
    @cython.locals(lane=int, source=Ring, ring=Ring, message=tuple)
    cpdef object append_messages_of(self, Lanes other)
    @cython.final
    @cython.locals(ring=Ring, made=Ring)
    cdef Ring lane(self, int lane)
    @cython.final
    cdef Ring ring(self, int lane)
    @cython.final
    @cython.locals(ring=Ring)
    cdef Py_ssize_t depth(self, int lane)
    @cython.final
    cdef bint has_room(self, int lane)
    @cython.final
    @cython.locals(ring=Ring)
    cdef Py_ssize_t waiting(self)
    @cython.final
    @cython.locals(most=Py_ssize_t)
    cdef Py_ssize_t fullest(self)
    @cython.final
    cdef object update_limit(self)
    @cython.final
    cdef object close(self)
    @cython.final
    cdef bint is_expecting(self)

@cython.final
cdef class ActorCell(Lanes):
    # The fields that every message touches come first (see Lanes).
    cdef bint queued
    cdef int status
    cdef int budget
    cdef int speed
    cdef int reason
    cdef ActorContext ctx
    cdef object behavior
    cdef object driver
    cdef list overdue
    cdef object watch
    cdef ActorCell next_ready
    # The kernel.
    cdef object kernel
    cdef ActorId actor
    cdef object state
    cdef object name
    cdef object context
    cdef object message
    cdef tuple failed_message
    cdef list stashed
    cdef ActorCell supervisor
    cdef int64_t serial
    cdef object cause
    cdef object overflow
    cdef Timer timers
    cdef Py_ssize_t fds
    cdef object children
    cdef object exit_hook
    cdef int keeps_mailbox
    cdef bint exit_observed
    cdef bint traps
    cdef dict links
    cdef dict watchers
    cdef dict watching

    @cython.locals(first=Timer)
    cdef object add_timer(self, Timer timer)
    @cython.locals(before=Timer, after=Timer)
    cdef object remove_timer(self, Timer timer)

@cython.final
cdef class RunQueue:
    cdef ActorCell first
    cdef ActorCell last
    cdef Py_ssize_t count

    @cython.locals(last=ActorCell)
    cdef object push(self, ActorCell cell)
    @cython.locals(cell=ActorCell)
    cdef ActorCell pop(self)
    @cython.locals(before=ActorCell, cell=ActorCell)
    cdef ActorCell pick(self, Py_ssize_t position)
