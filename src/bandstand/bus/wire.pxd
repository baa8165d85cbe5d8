cimport cython
from bandstand.bus.frame cimport (
    causation_of, correlation_of, data_of, id_of, kind_of, metadata_of, new_frame, new_raw, timeout_of, timestamp_of, type_of
)

cdef extern from *:
    r"""
    #include <stdint.h>
    #include <string.h>

    #define BANDSTAND_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

    static CYTHON_INLINE int bandstand_is_ascii(PyObject *line) {
        const char *at = PyBytes_AS_STRING(line), *end = at + PyBytes_GET_SIZE(line);
        uint64_t word, found = 0;
        for (; end - at >= 8; at += 8) {
            memcpy(&word, at, 8);
            found |= word;
        }
        for (; at < end; at++) found |= (unsigned char)*at;
        return (found & BANDSTAND_EACH(0x80)) == 0;
    }

    /* Not 0 if one of eight bytes is not ASCII, or has to be escaped in JSON: a control character, a quotation mark or a backslash. */
    static CYTHON_INLINE uint64_t bandstand_special(const char *at) {
        uint64_t word;
        memcpy(&word, at, 8);
        return (word | (word - BANDSTAND_EACH(0x20)) | ((word ^ BANDSTAND_EACH('"')) - BANDSTAND_EACH(1))
                | ((word ^ BANDSTAND_EACH(0x5c)) - BANDSTAND_EACH(1))) & BANDSTAND_EACH(0x80);
    }

    /* The length of a str that JSON writes as it is; -1 for any other object. */
    static CYTHON_INLINE Py_ssize_t bandstand_plain_size(PyObject *text) {
        Py_ssize_t at, size;
        const char *chars;
        uint64_t found = 0;
        if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_COMPACT_ASCII(text)) return -1;
        size = PyUnicode_GET_LENGTH(text);
        chars = (const char *)PyUnicode_1BYTE_DATA(text);
        if (size < 8) {
            char padded[8] = {'-', '-', '-', '-', '-', '-', '-', '-'};
            memcpy(padded, chars, size);
            found = bandstand_special(padded);
        }
        else {
            for (at = 0; at <= size - 8; at += 8) found |= bandstand_special(chars + at);
            found |= bandstand_special(chars + size - 8);
        }
        return found ? -1 : size;
    }

    /* Whether a line goes on like this. It may end before: a `bytes` ends with a 0. */
    static CYTHON_INLINE int bandstand_has_at(PyObject *line, Py_ssize_t at, const char *text, Py_ssize_t size) {
        return PyBytes_GET_SIZE(line) - at >= size && memcmp(PyBytes_AS_STRING(line) + at, text, size) == 0;
    }

    /* Behind the ASCII characters that need no escape. */
    static CYTHON_INLINE const char *bandstand_skip_chars(const char *at, const char *end) {
        while (end - at >= 8 && bandstand_special(at) == 0) at += 8;
        while ((signed char)*at >= 0x20 && *at != '"' && *at != 0x5c) at++;
        return at;
    }

    static CYTHON_INLINE const char *bandstand_skip_digits(const char *at) {
        if (*at == '0') return at + 1;
        while (*at >= '0' && *at <= '9') at++;
        return at;
    }

    /* Behind a JSON value of texts without escapes, integers, words, and lists and objects of these; NULL if it is not one, or is another. */
    static const char *bandstand_skip_value(const char *at, const char *last, int depth) {
        const char *first;
        char end;
        if (*at == '"') {
            at = bandstand_skip_chars(at + 1, last);
            return *at == '"' ? at + 1 : NULL;
        }
        if (*at == '-' || (*at >= '0' && *at <= '9')) {
            first = at + (*at == '-');
            at = bandstand_skip_digits(first);
            return at == first || *at == '.' || *at == 'e' || *at == 'E' ? NULL : at;
        }
        if (*at != '{' && *at != '[') {
            if (strncmp(at, "true", 4) == 0 || strncmp(at, "null", 4) == 0) return at + 4;
            return strncmp(at, "false", 5) == 0 ? at + 5 : NULL;
        }
        end = *at == '{' ? '}' : ']';
        if (depth == 0) return NULL;
        if (at[1] == end) return at + 2;
        do {
            at++;
            if (end == '}') {
                if (*at != '"') return NULL;
                at = bandstand_skip_chars(at + 1, last);
                if (*at != '"' || at[1] != ':') return NULL;
                at += 2;
            }
            at = bandstand_skip_value(at, last, depth - 1);
            if (at == NULL) return NULL;
        } while (*at == ',');
        return *at == end ? at + 1 : NULL;
    }

    /* Where a text or value of a line ends, which begins at a place; -1 if it is not a plain one. */
    static CYTHON_INLINE Py_ssize_t bandstand_end_of_chars(PyObject *line, Py_ssize_t at) {
        const char *first = PyBytes_AS_STRING(line);
        return bandstand_skip_chars(first + at, first + PyBytes_GET_SIZE(line)) - first;
    }

    static CYTHON_INLINE Py_ssize_t bandstand_end_of_digits(PyObject *line, Py_ssize_t at) {
        return bandstand_skip_digits(PyBytes_AS_STRING(line) + at) - PyBytes_AS_STRING(line);
    }

    static CYTHON_INLINE Py_ssize_t bandstand_end_of_value(PyObject *line, Py_ssize_t at) {
        const char *first = PyBytes_AS_STRING(line);
        const char *end = bandstand_skip_value(first + at, first + PyBytes_GET_SIZE(line), 16);
        return end == NULL ? -1 : end - first;
    }

    static CYTHON_INLINE PyObject *bandstand_ascii_text(PyObject *line, Py_ssize_t at, Py_ssize_t end) {
        PyObject *text = PyUnicode_New(end - at, 127);
        if (text != NULL) memcpy(PyUnicode_1BYTE_DATA(text), PyBytes_AS_STRING(line) + at, end - at);
        return text;
    }

    #define BANDSTAND_TYPES 64

    /* The same str for the same type of message, as long as no other type takes its place: a type comes again and again, and a known str has its hash. */
    static CYTHON_INLINE PyObject *bandstand_type_text(PyObject *line, Py_ssize_t at, Py_ssize_t end) {
        static PyObject *known[BANDSTAND_TYPES];
        const char *chars = PyBytes_AS_STRING(line) + at;
        PyObject **place = known + ((size_t)(end - at) * 7 + (unsigned char)chars[0] + 3 * (unsigned char)chars[end - at - 1]) % BANDSTAND_TYPES;
        PyObject *text = *place;
        if (text == NULL || PyUnicode_GET_LENGTH(text) != end - at || memcmp(PyUnicode_1BYTE_DATA(text), chars, end - at) != 0) {
            text = bandstand_ascii_text(line, at, end);
            if (text == NULL) return NULL;
            Py_XSETREF(*place, text);
        }
        Py_INCREF(text);
        return text;
    }

    static CYTHON_INLINE PyObject *bandstand_bytes(PyObject *line, Py_ssize_t at, Py_ssize_t end) {
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(line) + at, end - at);
    }

    /* A number, and the same object for the same number as the last time: many requests come in one millisecond. */
    static CYTHON_INLINE PyObject *bandstand_number(PyObject *line, Py_ssize_t at, Py_ssize_t end) {
        static long long last;
        static PyObject *known;
        long long number = 0;
        for (; at < end; at++) number = 10 * number + (PyBytes_AS_STRING(line)[at] - '0');
        if (known == NULL || number != last) {
            PyObject *fresh = PyLong_FromLongLong(number);
            if (fresh == NULL) return NULL;
            Py_XSETREF(known, fresh);
            last = number;
        }
        Py_INCREF(known);
        return known;
    }

    #define BANDSTAND_PUT(text, size) (memcpy(out, text, size), out += (size))
    #define BANDSTAND_PUT_LITERAL(text) BANDSTAND_PUT(text, sizeof(text) - 1)
    #define BANDSTAND_PUT_STR(text, size) BANDSTAND_PUT(PyUnicode_1BYTE_DATA(text), size)

    /* The line of a frame whose texts need no escapes; None for any other frame. */
    static CYTHON_INLINE PyObject *bandstand_join_frame(
        PyObject *kind, PyObject *type, PyObject *data, PyObject *id, PyObject *timestamp, PyObject *causation, PyObject *correlation
    ) {
        Py_ssize_t kind_size = bandstand_plain_size(kind), type_size = bandstand_plain_size(type);
        Py_ssize_t id_size = bandstand_plain_size(id), cause_size = 0, group_size = 0, size;
        /* The last timestamp and its digits: many answers are given in one millisecond. */
        static PyObject *last;
        static char digits[20], *first;
        char *out;
        Py_buffer view;
        PyObject *line;
        if (causation != Py_None) cause_size = bandstand_plain_size(causation);
        if (correlation != Py_None) group_size = bandstand_plain_size(correlation);
        if ((kind_size | type_size | id_size | cause_size | group_size) < 0) Py_RETURN_NONE;
        if (timestamp != last) {
            int is_too_large;
            long long number;
            if (!PyLong_CheckExact(timestamp)) Py_RETURN_NONE;
            number = PyLong_AsLongLongAndOverflow(timestamp, &is_too_large);
            if (number < 0 || is_too_large) Py_RETURN_NONE;
            first = digits + sizeof(digits);
            do *--first = '0' + (char)(number % 10);
            while ((number /= 10) != 0);
            Py_INCREF(timestamp);
            Py_XSETREF(last, timestamp);
        }
        if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) return NULL;
        size = sizeof("{'kind':'','type':'','data':,'metadata':{'id':'','timestamp':}}") - 1 + kind_size + type_size + view.len + id_size
             + (digits + sizeof(digits) - first);
        if (causation != Py_None) size += sizeof(",'causation':''") - 1 + cause_size;
        if (correlation != Py_None) size += sizeof(",'correlation':''") - 1 + group_size;
        line = PyBytes_FromStringAndSize(NULL, size);
        if (line != NULL) {
            out = PyBytes_AS_STRING(line);
            BANDSTAND_PUT_LITERAL("{\"kind\":\"");
            BANDSTAND_PUT_STR(kind, kind_size);
            BANDSTAND_PUT_LITERAL("\",\"type\":\"");
            BANDSTAND_PUT_STR(type, type_size);
            BANDSTAND_PUT_LITERAL("\",\"data\":");
            BANDSTAND_PUT(view.buf, view.len);
            BANDSTAND_PUT_LITERAL(",\"metadata\":{\"id\":\"");
            BANDSTAND_PUT_STR(id, id_size);
            BANDSTAND_PUT_LITERAL("\",\"timestamp\":");
            BANDSTAND_PUT(first, digits + sizeof(digits) - first);
            if (causation != Py_None) {
                BANDSTAND_PUT_LITERAL(",\"causation\":\"");
                BANDSTAND_PUT_STR(causation, cause_size);
                BANDSTAND_PUT_LITERAL("\"");
            }
            if (correlation != Py_None) {
                BANDSTAND_PUT_LITERAL(",\"correlation\":\"");
                BANDSTAND_PUT_STR(correlation, group_size);
                BANDSTAND_PUT_LITERAL("\"");
            }
            BANDSTAND_PUT_LITERAL("}}");
        }
        PyBuffer_Release(&view);
        return line;
    }
    """
    bint is_ascii "bandstand_is_ascii"(bytes line)
    bint has_at "bandstand_has_at"(bytes line, Py_ssize_t at, const char *text, Py_ssize_t size)
    Py_ssize_t end_of_chars "bandstand_end_of_chars"(bytes line, Py_ssize_t at)
    Py_ssize_t end_of_digits "bandstand_end_of_digits"(bytes line, Py_ssize_t at)
    Py_ssize_t end_of_value "bandstand_end_of_value"(bytes line, Py_ssize_t at)
    str ascii_text "bandstand_ascii_text"(bytes line, Py_ssize_t at, Py_ssize_t end)
    str type_text "bandstand_type_text"(bytes line, Py_ssize_t at, Py_ssize_t end)
    bytes bytes_at "bandstand_bytes"(bytes line, Py_ssize_t at, Py_ssize_t end)
    object number_at "bandstand_number"(bytes line, Py_ssize_t at, Py_ssize_t end)
    object join_frame "bandstand_join_frame"(
        object kind, object type, object data, object id, object timestamp, object causation, object correlation
    )

cdef Py_ssize_t DEEP_LINE
cdef Py_ssize_t LONG_LINE
cdef object RAW
cdef object decode
cdef object encode

cdef inline object write_unescaped(object frame):
    """Encode a frame whose texts need no escapes. None for any other frame."""
    cdef object data = data_of(frame), metadata = metadata_of(frame)
    if type(data) is not RAW or timeout_of(metadata) is not None:
        return None
    return join_frame(
        kind_of(frame),
        type_of(frame),
        data,
        id_of(metadata),
        timestamp_of(metadata),
        causation_of(metadata),
        correlation_of(metadata),
    )

cdef inline object read_canonical(bytes line):
    """Decode a request as programs write it: the fields in order, no white space, no escapes. None for any other line."""
    cdef str kind
    cdef Py_ssize_t at, type_at, type_end, data_at, data_end, id_at, id_end
    if has_at(line, 0, b'{"kind":"query","type":"', 24):
        kind = "query"
        type_at = 24
    elif has_at(line, 0, b'{"kind":"command","type":"', 26):
        kind = "command"
        type_at = 26
    else:
        return None
    type_end = end_of_chars(line, type_at)
    if not 1 <= type_end - type_at <= 200 or not has_at(line, type_end, b'","data":', 9):
        return None
    data_at = type_end + 9
    data_end = end_of_value(line, data_at)
    if data_end < 0 or not has_at(line, data_end, b',"metadata":{"id":"', 19):
        return None
    id_at = data_end + 19
    id_end = end_of_chars(line, id_at)
    if not 1 <= id_end - id_at <= 200 or not has_at(line, id_end, b'","timestamp":', 14):
        return None
    at = end_of_digits(line, id_end + 14)
    if not 1 <= at - id_end - 14 <= 18 or at + 2 != len(line) or not has_at(line, at, b'}}', 2):
        return None
    return new_frame(
        kind,
        type_text(line, type_at, type_end),
        new_raw(RAW, bytes_at(line, data_at, data_end)),
        ascii_text(line, id_at, id_end),
        number_at(line, id_end + 14, at),
        None,
        None,
    )

@cython.locals(size=Py_ssize_t)
cpdef object read_plain(bytes line)
cpdef bytes write_frame(object frame)
@cython.locals(size=Py_ssize_t, place=Py_ssize_t, depth=Py_ssize_t, byte=cython.uchar)
cpdef bint is_deeper(bytes line, Py_ssize_t limit) except -1

@cython.final
cdef class LineSplitter:
    cdef bint _has_ended
    cdef bint _is_skipping
    cdef Py_ssize_t _longest
    cdef object _partial
    cdef bytes _rest

    cpdef object feed(self, bytes chunk)
    cpdef object end(self)
    cpdef Py_ssize_t held(self) except -1
    cpdef object clear(self)
    @cython.locals(rest=bytes, lines=list, tail=bytes, is_all=bint, may_be_long=bint)
    cpdef list cut(self)
    cdef list _keep(self, bytes tail)
