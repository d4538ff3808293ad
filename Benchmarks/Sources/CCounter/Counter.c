// For Linux with glibc only. Elsewhere the library is empty, because SwiftPM builds every target of a package.
#if defined(__linux__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // RTLD_NEXT
#endif
#include "CCounter.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__GLIBC__)
// The internal names of glibc's allocator. dlsym is not used for them, because dlsym itself allocates.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

typedef struct {
    _Atomic int64_t locks;
    _Atomic int64_t allocations;
} counts;

_Static_assert(sizeof(counts) == sizeof(convoy_bench_counts), "the file has the layout of the header");

// The counts before the constructor has run, or without a file.
static counts early;
static counts *current = &early;

// Runs before the program has a second thread. The mapping is shared, so the file has the counts even if _exit or a
// signal ends the process.
__attribute__((constructor)) static void count_in_file(void) {
    const char *path = getenv(CONVOY_BENCH_COUNTS);
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0) return;
    if (ftruncate(file, sizeof(counts)) == 0) {
        counts *mapped = mmap(NULL, sizeof(counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED) {
            atomic_fetch_add(&mapped->locks, early.locks);
            atomic_fetch_add(&mapped->allocations, early.allocations);
            current = mapped;
        }
    }
    close(file);
}

static void count_lock(void) { atomic_fetch_add_explicit(&current->locks, 1, memory_order_relaxed); }
static void count_allocation(void) { atomic_fetch_add_explicit(&current->allocations, 1, memory_order_relaxed); }

// Functions that lock. The first call looks up the definition in libc. Several threads may do so at once, because all
// find the same function.
#define LOCKING(name, type)                                          \
    int name(type *lock) {                                           \
        static int (*_Atomic next)(type *);                          \
        int (*function)(type *) = atomic_load(&next);                \
        if (!function) {                                             \
            function = (int (*)(type *))dlsym(RTLD_NEXT, #name);     \
            if (!function) return ENOSYS;                            \
            atomic_store(&next, function);                           \
        }                                                            \
        count_lock();                                                \
        return function(lock);                                       \
    }

LOCKING(pthread_mutex_lock, pthread_mutex_t)
LOCKING(pthread_mutex_trylock, pthread_mutex_t)
LOCKING(pthread_rwlock_rdlock, pthread_rwlock_t)
LOCKING(pthread_rwlock_wrlock, pthread_rwlock_t)

// Functions that allocate. `new`, Swift's allocator and strdup call them.
void *malloc(size_t size) {
    count_allocation();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    count_allocation();
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    count_allocation();
    return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
    count_allocation();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) return EINVAL;
    void *memory = memalign(alignment, size);
    if (!memory) return ENOMEM;
    *result = memory;
    return 0;
}
#endif
#endif
