// Sets variables of the environment for every test target that links this library.
//
// Test cases take turns: a few at a time, in place of all 1,700 at once.
// By default Swift Testing starts every case at once, on as many threads as there are processors. Each `await` of a
// case then goes behind those of all others: on a busy machine a case whose work takes milliseconds ends after a
// minute, beyond the bound of whatever it waits for. The bound of a case that has its turn counts its own time.
#define _GNU_SOURCE
#include "TestTurns.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

// Some for each processor, because most cases wait for sockets, children and clocks rather than compute.
enum { casesPerProcessor = 4 };

// Before `main`: the testing library reads the variable once. A value that is set already stays.
__attribute__((constructor)) static void takeTurns(void) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    char width[32];
    snprintf(width, sizeof width, "%ld", casesPerProcessor * (processors < 1 ? 1 : processors));
    setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", width, 0);
}

// Temporary files go to memory if there is room and nobody chose another place. The tests synchronise thousands of small
// files, and a disk makes each of them wait. What SIGKILL leaves in memory is what it leaves on a disk.
__attribute__((constructor)) static void writeToMemory(void) {
#if defined(__linux__)
    struct statvfs usage;
    if (access("/dev/shm", W_OK | X_OK) != 0 || statvfs("/dev/shm", &usage) != 0) return;
    if ((unsigned long long)usage.f_bavail * usage.f_bsize > 4ULL << 30) setenv("TMPDIR", "/dev/shm", 0);
#endif
}
