// Sets variables of the environment for every test target that links this library.
//
// The library limits the number of test cases that run at once. By default Swift Testing starts all cases at once, on
// as many threads as there are processors. Each `await` of a case is then queued after those of all other cases. On a
// busy machine, a case with milliseconds of work would end after a minute, and its waits would time out.
#define _GNU_SOURCE
#include "TestTurns.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

// Several cases for each processor, because most cases wait for sockets, child processes and clocks.
enum { casesPerProcessor = 4 };

// Runs before `main`, because the testing library reads the variable once. An existing value is not changed.
__attribute__((constructor)) static void takeTurns(void) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    char width[32];
    snprintf(width, sizeof width, "%ld", casesPerProcessor * (processors < 1 ? 1 : processors));
    setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", width, 0);
}

// Moves temporary files to memory if there is enough space and TMPDIR is not set. The tests synchronise thousands of
// small files, and each synchronisation would wait for a disk. After a SIGKILL, the content of a file in memory is the
// same as on a disk.
__attribute__((constructor)) static void writeToMemory(void) {
#if defined(__linux__)
    struct statvfs usage;
    if (access("/dev/shm", W_OK | X_OK) != 0 || statvfs("/dev/shm", &usage) != 0) return;
    // Containers may mount `/dev/shm` with `noexec`.
    if (usage.f_flag & ST_NOEXEC) return;
    if ((unsigned long long)usage.f_bavail * usage.f_frsize > 4ULL << 30) setenv("TMPDIR", "/dev/shm", 0);
#endif
}
