# The bytes objects that are made here are filled before any other code can see them.
cdef extern from *:
    """
    #include <stdint.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif

    static CYTHON_UNUSED void bandstand_advise_huge_pages(char *start, Py_ssize_t size, Py_ssize_t min_size) {
    #ifdef MADV_HUGEPAGE
        uintptr_t first, end;
        if (size < min_size) return;
        first = ((uintptr_t)start + 4095) & ~(uintptr_t)4095;
        end = ((uintptr_t)start + (uintptr_t)size) & ~(uintptr_t)4095;
        /* Only advice: without it, or where the system refuses it, the memory is the same and slower to fill. */
        (void)madvise((void *)first, (size_t)(end - first), MADV_HUGEPAGE);
    #else
        (void)start; (void)size; (void)min_size;
    #endif
    }

    static CYTHON_UNUSED PyObject *bandstand_new_store(Py_ssize_t size, int is_frozen, Py_ssize_t huge_size) {
        PyObject *store = is_frozen ? PyBytes_FromStringAndSize(NULL, size) : PyByteArray_FromStringAndSize(NULL, size);
        if (store == NULL) return NULL;
        bandstand_advise_huge_pages(is_frozen ? PyBytes_AS_STRING(store) : PyByteArray_AS_STRING(store), size, huge_size);
        return store;
    }

    static CYTHON_UNUSED PyObject *bandstand_writable(PyObject *store) {
        if (PyBytes_CheckExact(store))
            return PyMemoryView_FromMemory(PyBytes_AS_STRING(store), PyBytes_GET_SIZE(store), PyBUF_WRITE);
        return PyMemoryView_FromObject(store);
    }

    static CYTHON_UNUSED PyObject *bandstand_new_copy(PyObject *data, Py_ssize_t huge_size) {
        Py_buffer buffer;
        PyObject *store;
        if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0) return NULL;
        store = bandstand_new_store(buffer.len, 1, huge_size);
        if (store != NULL) memcpy(PyBytes_AS_STRING(store), buffer.buf, (size_t)buffer.len);
        PyBuffer_Release(&buffer);
        return store;
    }
    """
    object new_store "bandstand_new_store"(Py_ssize_t size, bint is_frozen, Py_ssize_t huge_size)
    object writable "bandstand_writable"(object store)
    object new_copy "bandstand_new_copy"(object data, Py_ssize_t huge_size)
