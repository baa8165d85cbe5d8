/* Records what a process does to the files below a folder: writes with their data, truncations, syncs, and changes of names.
 *
 *     gcc -shared -fPIC -O1 -o recorder.so recorder.c -ldl -lpthread
 *     LD_PRELOAD=recorder.so RECORDER_FOLDER=/folder RECORDER_LOG=/log program
 *
 * Each entry of the log, in the machine's byte order:
 *
 *     operation u8 | length of the path u32 | inode u64 | offset u64 | length of the data u64 | path | data
 *
 * The operations are w(rite), t(runcate; the offset is the size), s(ync), c(reate), d(irectory created), u(nlink) and r(ename; the data are the
 * new path). One lock is held over the call and its entry, so entries are in the order of the calls. An operation that fails has no entry. A
 * memory map is not seen: SQLite uses one for the -shm file, which need not survive.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static char folder[4096];
static size_t folder_length;

/* The libc's own function behind the one that is defined here. */
#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) abort();
    return function;
}

__attribute__((constructor)) static void start(void) {
    const char *where = getenv("RECORDER_FOLDER"), *log = getenv("RECORDER_LOG");
    if (!where || !log) return;
    folder_length = strlen(where);
    if (folder_length >= sizeof folder) abort();
    memcpy(folder, where, folder_length + 1);
    log_fd = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0) abort();
}

static int is_recorded(const char *path) {
    if (log_fd < 0 || strncmp(path, folder, folder_length) != 0) return 0;
    return path[folder_length] == '/' || path[folder_length] == 0;
}

static int find_path(int fd, char *path, size_t size) {
    char link[64];
    ssize_t length;
    int kept = errno;
    if (log_fd < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, size - 1);
    errno = kept;
    if (length < 0) return 0;
    path[length] = 0;
    return is_recorded(path);
}

static void append(char operation, const char *path, uint64_t inode, uint64_t offset, const void *data, uint64_t size) {
    uint32_t length = (uint32_t)strlen(path);
    struct iovec parts[7] = {{&operation, 1},       {&length, sizeof length}, {&inode, sizeof inode}, {&offset, sizeof offset},
                             {&size, sizeof size}, {(void *)path, length},   {(void *)data, size}};
    size_t total = 1 + sizeof length + sizeof inode + sizeof offset + sizeof size + length + size;
    int kept = errno;
    if (writev(log_fd, parts, 7) != (ssize_t)total) abort();
    errno = kept;
}

static uint64_t inode_of(int fd) {
    struct stat found;
    int kept = errno;
    if (fstat(fd, &found)) abort();
    errno = kept;
    return found.st_ino;
}

static ssize_t write_at(int fd, const void *data, size_t size, off64_t offset) {
    char path[4096];
    ssize_t result;
    if (!find_path(fd, path, sizeof path)) return REAL(pwrite64)(fd, data, size, offset);
    pthread_mutex_lock(&lock);
    result = REAL(pwrite64)(fd, data, size, offset);
    if (result > 0) append('w', path, inode_of(fd), offset, data, result);
    pthread_mutex_unlock(&lock);
    return result;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return write_at(fd, data, size, offset); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return write_at(fd, data, size, offset); }

ssize_t write(int fd, const void *data, size_t size) {
    char path[4096];
    ssize_t result;
    off64_t end;
    if (!find_path(fd, path, sizeof path)) return REAL(write)(fd, data, size);
    pthread_mutex_lock(&lock);
    result = REAL(write)(fd, data, size);
    if (result > 0) {
        /* Also right for O_APPEND: the position is behind what was written. */
        end = lseek64(fd, 0, SEEK_CUR);
        append('w', path, inode_of(fd), end - result, data, result);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static int truncate_to(int fd, off64_t size) {
    char path[4096];
    int result;
    if (!find_path(fd, path, sizeof path)) return REAL(ftruncate64)(fd, size);
    pthread_mutex_lock(&lock);
    result = REAL(ftruncate64)(fd, size);
    if (result == 0) append('t', path, inode_of(fd), size, "", 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate(int fd, off_t size) { return truncate_to(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncate_to(fd, size); }

static int sync_file(int fd, int (*function)(int)) {
    char path[4096];
    int result;
    if (!find_path(fd, path, sizeof path)) return function(fd);
    pthread_mutex_lock(&lock);
    result = function(fd);
    if (result == 0) append('s', path, inode_of(fd), 0, "", 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int fsync(int fd) { return sync_file(fd, REAL(fsync)); }
int fdatasync(int fd) { return sync_file(fd, REAL(fdatasync)); }

static int open_file(const char *path, int flags, mode_t mode) {
    int result, is_new;
    if (!is_recorded(path) || !(flags & O_CREAT)) return REAL(open64)(path, flags, mode);
    pthread_mutex_lock(&lock);
    is_new = access(path, F_OK) != 0;
    result = REAL(open64)(path, flags, mode);
    if (result >= 0 && is_new) append('c', path, inode_of(result), 0, "", 0);
    else if (result >= 0 && (flags & O_TRUNC)) append('t', path, inode_of(result), 0, "", 0);
    pthread_mutex_unlock(&lock);
    return result;
}

#define MODE_OF(flags, mode)          \
    mode_t mode = 0;                  \
    if ((flags) & (O_CREAT)) {        \
        va_list rest;                 \
        va_start(rest, flags);        \
        mode = va_arg(rest, mode_t);  \
        va_end(rest);                 \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_file(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_file(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    int result;
    if (!is_recorded(path)) return REAL(mkdir)(path, mode);
    pthread_mutex_lock(&lock);
    result = REAL(mkdir)(path, mode);
    if (result == 0) append('d', path, 0, 0, "", 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int unlink(const char *path) {
    int result;
    if (!is_recorded(path)) return REAL(unlink)(path);
    pthread_mutex_lock(&lock);
    result = REAL(unlink)(path);
    if (result == 0) append('u', path, 0, 0, "", 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int rename(const char *path, const char *target) {
    int result;
    if (!is_recorded(path)) return REAL(rename)(path, target);
    pthread_mutex_lock(&lock);
    result = REAL(rename)(path, target);
    if (result == 0) append('r', path, 0, 0, target, strlen(target));
    pthread_mutex_unlock(&lock);
    return result;
}
