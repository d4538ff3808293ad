// Records the file changes of a process below a directory, or kills the process at one of these calls. For Linux.
//
// Tests compile this file with `clang -shared -fPIC` and load it into a child process by LD_PRELOAD. The environment of
// the child process:
//
//   DISK_ROOT    the directory, as realpath(3) gives it
//   DISK_RECORD  the file that entries are appended to
//   DISK_KILL    the number of a call; SIGKILL ends the process directly before this call
//   DISK_KILL_AFTER  the number of a call; SIGKILL ends the process directly after this call
//   DISK_FAIL    the number of a call that fails with EIO without an effect; a failing sync does synchronise
//   DISK_ERRNO   the error number for DISK_FAIL in place of EIO
//
// An entry: kind (1 byte), number of the file (8), offset (8), length of the text (4), the text. Kinds:
//
//   C created (text: path)     W written (bytes)        T truncated (offset: size)     S file synced
//   D directory synced (path)  R renamed (from NUL to)  L linked (from NUL to)         U unlinked (path)
//   M directory made (path)    A written to the standard output (bytes)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Only one call runs at a time, so the record has the order of the changes on the disk.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[4096];
static size_t rootLength;
static int record = -1;
static int failure = EIO;
static long killNumber, killAfterNumber, failNumber, count;

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("DISK_ROOT"), *file = getenv("DISK_RECORD");
    const char *number = getenv("DISK_ERRNO");
    if (number != NULL) failure = atoi(number);
    const char *before = getenv("DISK_KILL"), *after = getenv("DISK_KILL_AFTER"), *fails = getenv("DISK_FAIL");
    if (directory == NULL || strlen(directory) >= sizeof root - 1) return;
    strcpy(root, directory);
    rootLength = strlen(root);
    if (before != NULL) killNumber = atol(before);
    if (after != NULL) killAfterNumber = atol(after);
    if (fails != NULL) failNumber = atol(fails);
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    if (file != NULL) record = (int)syscall(SYS_openat, AT_FDCWD, file, flags, 0600);
}

/// The path relative to the directory; NULL for a path outside of it.
static const char *below(const char *path) {
    if (rootLength == 0 || path == NULL || strncmp(path, root, rootLength) != 0) return NULL;
    if (path[rootLength] == 0) return "";
    return path[rootLength] == '/' ? path + rootLength + 1 : NULL;
}

/// The path of a descriptor's file relative to the directory; NULL for a file outside of it.
static const char *named(int descriptor, char *buffer, size_t size) {
    char link[64];
    if (rootLength == 0 || descriptor < 0) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, buffer, size - 1);
    if (length < 0) return NULL;
    buffer[length] = 0;
    return below(buffer);
}

static uint64_t number(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

static void put(const void *bytes, size_t length) {
    const char *rest = bytes;
    while (length > 0) {
        ssize_t written = syscall(SYS_write, record, rest, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) abort();
        rest += written;
        length -= (size_t)written;
    }
}

static void note(char kind, uint64_t file, uint64_t offset, const void *text, size_t length) {
    if (record < 0) return;
    char head[21];
    uint32_t size = (uint32_t)length;
    head[0] = kind;
    memcpy(head + 1, &file, 8);
    memcpy(head + 9, &offset, 8);
    memcpy(head + 17, &size, 4);
    put(head, sizeof head);
    put(text, length);
}

static void notePair(char kind, const char *from, const char *to) {
    char text[8192];
    int length = snprintf(text, sizeof text, "%s%c%s", from, 0, to);
    note(kind, 0, 0, text, (size_t)length);
}

/// Every call that changes a file begins with `enter` and ends with `leave`.
///
/// Returns 1 with the lock released if the call must fail, otherwise 0 with the lock held.
static int enter(void) {
    pthread_mutex_lock(&lock);
    count += 1;
    if (count == killNumber) kill(getpid(), SIGKILL);
    if (count != failNumber) return 0;
    pthread_mutex_unlock(&lock);
    errno = failure;
    return 1;
}

static void leave(void) {
    if (count == killAfterNumber) kill(getpid(), SIGKILL);
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
}

static int opened(int (*next)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    struct stat status;
    const char *name = below(path);
    int changes = name != NULL && (flags & (O_CREAT | O_TRUNC)) != 0;
    int isThere = changes && stat(path, &status) == 0;
    if (!changes || (isThere && !(flags & O_TRUNC))) return next(path, flags, mode);
    if (enter()) return -1;
    int descriptor = next(path, flags, mode);
    int kept = errno;
    if (descriptor >= 0) {
        if (isThere) note('T', number(descriptor), 0, "", 0);
        else note('C', number(descriptor), 0, name, strlen(name));
    }
    errno = kept;
    leave();
    return descriptor;
}

#define OPEN(function)                                                                                                 \
    int function(const char *path, int flags, ...) {                                                                   \
        mode_t mode = 0;                                                                                               \
        if (flags & O_CREAT) {                                                                                         \
            va_list list;                                                                                              \
            va_start(list, flags);                                                                                     \
            mode = va_arg(list, mode_t);                                                                               \
            va_end(list);                                                                                              \
        }                                                                                                              \
        return opened(NEXT(function), path, flags, mode);                                                              \
    }
OPEN(open)
OPEN(open64)

/// Records the written bytes after the call that wrote them.
static ssize_t wrote(int descriptor, const void *bytes, ssize_t written, off_t offset) {
    int kept = errno;
    if (written > 0) note('W', number(descriptor), (uint64_t)offset, bytes, (size_t)written);
    errno = kept;
    leave();
    return written;
}

ssize_t write(int descriptor, const void *bytes, size_t length) {
    char buffer[4096];
    ssize_t (*next)(int, const void *, size_t) = NEXT(write);
    if (descriptor == STDOUT_FILENO && rootLength > 0) {
        pthread_mutex_lock(&lock);
        ssize_t written = next(descriptor, bytes, length);
        int kept = errno;
        if (written > 0) note('A', 0, 0, bytes, (size_t)written);
        pthread_mutex_unlock(&lock);
        errno = kept;
        return written;
    }
    if (named(descriptor, buffer, sizeof buffer) == NULL) return next(descriptor, bytes, length);
    if (enter()) return -1;
    ssize_t written = next(descriptor, bytes, length);
    return wrote(descriptor, bytes, written, written > 0 ? lseek(descriptor, 0, SEEK_CUR) - written : 0);
}

#define PWRITE(function)                                                                                               \
    ssize_t function(int descriptor, const void *bytes, size_t length, off_t offset) {                                 \
        char buffer[4096];                                                                                             \
        __typeof__(&pwrite) next = (__typeof__(&pwrite))dlsym(RTLD_NEXT, #function);                                   \
        if (named(descriptor, buffer, sizeof buffer) == NULL) return next(descriptor, bytes, length, offset);          \
        if (enter()) return -1;                                                                                        \
        return wrote(descriptor, bytes, next(descriptor, bytes, length, offset), offset);                              \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define TRUNCATE(function)                                                                                             \
    int function(int descriptor, off_t size) {                                                                         \
        char buffer[4096];                                                                                             \
        __typeof__(&ftruncate) next = (__typeof__(&ftruncate))dlsym(RTLD_NEXT, #function);                             \
        if (named(descriptor, buffer, sizeof buffer) == NULL) return next(descriptor, size);                           \
        if (enter()) return -1;                                                                                        \
        int result = next(descriptor, size);                                                                           \
        if (result == 0) note('T', number(descriptor), (uint64_t)size, "", 0);                                         \
        leave();                                                                                                       \
        return result;                                                                                                 \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

static int synced(int (*next)(int), int descriptor) {
    char buffer[4096];
    struct stat status;
    const char *name = named(descriptor, buffer, sizeof buffer);
    if (name == NULL || fstat(descriptor, &status) != 0) return next(descriptor);
    if (enter()) {
        next(descriptor);
        errno = failure;
        return -1;
    }
    int result = next(descriptor);
    if (result == 0 && S_ISDIR(status.st_mode)) note('D', 0, 0, name, strlen(name));
    else if (result == 0) note('S', status.st_ino, 0, "", 0);
    leave();
    return result;
}
int fsync(int descriptor) { return synced(NEXT(fsync), descriptor); }
int fdatasync(int descriptor) { return synced(NEXT(fdatasync), descriptor); }

int unlink(const char *path) {
    const char *name = below(path);
    if (name == NULL) return NEXT(unlink)(path);
    if (enter()) return -1;
    int result = NEXT(unlink)(path);
    if (result == 0) note('U', 0, 0, name, strlen(name));
    leave();
    return result;
}

int mkdir(const char *path, mode_t mode) {
    const char *name = below(path);
    if (name == NULL) return NEXT(mkdir)(path, mode);
    if (enter()) return -1;
    int result = NEXT(mkdir)(path, mode);
    if (result == 0) note('M', 0, 0, name, strlen(name));
    leave();
    return result;
}

#define PAIR(function, kind)                                                                                           \
    int function(const char *from, const char *to) {                                                                   \
        const char *source = below(from), *target = below(to);                                                         \
        if (source == NULL || target == NULL) return NEXT(function)(from, to);                                         \
        if (enter()) return -1;                                                                                        \
        int result = NEXT(function)(from, to);                                                                         \
        if (result == 0) notePair(kind, source, target);                                                               \
        leave();                                                                                                       \
        return result;                                                                                                 \
    }
PAIR(rename, 'R')
PAIR(link, 'L')
