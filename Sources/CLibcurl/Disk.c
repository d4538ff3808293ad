// This file is for Linux only.
#ifdef __linux__
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // syncfs, sync_file_range
#endif
#include "CLibcurl.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

int convoy_disk_sync(int descriptor) {
    if (syncfs(descriptor) != 0) return 0;
    struct statfs status;
    if (fstatfs(descriptor, &status) != 0) return 0;
    // In `syncfs`, the drivers of these file systems write the bytes of every file, wait for the writes, and commit
    // their journal. FUSE, for example, does not wait, and NFS records its own errors.
    switch ((unsigned long)status.f_type) {
        case 0xEF53:      // ext3, ext4, and ext2 (usually mounted by the driver of ext4)
        case 0x58465342:  // XFS
        case 0x9123683E:  // Btrfs
            return 1;
        default: return 0;
    }
}

int convoy_disk_is_memory(int descriptor) {
    struct statfs status;
    if (fstatfs(descriptor, &status) != 0) return 0;
    return (unsigned long)status.f_type == 0x01021994     // tmpfs
        || (unsigned long)status.f_type == 0x858458F6;    // ramfs
}

int convoy_disk_error(int descriptor) {
    while (sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE) != 0) {
        if (errno != EINTR) return errno;
    }
    return 0;
}

/// The maximum number of bytes of one `copy_file_range`.
#define COPY_BYTES ((int64_t)64 << 20)

int64_t convoy_disk_copy(
    int to, int64_t position, int from, int64_t offset, int64_t count, convoy_copy_call call) {
    struct stat status;
    // If the target does not end at the position, another process has changed it, and a copy could hide the change.
    if (fstat(to, &status) != 0 || status.st_size != position) return 0;
    // FICLONE and `copy_file_range` fail for a target that is open for appending.
    int flags = fcntl(to, F_GETFL);
    if (flags < 0 || (flags & O_APPEND && fcntl(to, F_SETFL, flags & ~O_APPEND) != 0)) return 0;
    int64_t copied = -1;
    if (position == 0 && offset == 0 && fstat(from, &status) == 0 && status.st_size == count) {
        // FICLONE clones the file. A failed clone may leave bytes in the target (Btrfs without free space), which would
        // remain after the end of a shorter copy.
        if (ioctl(to, _IOW(0x94, 9, int), from) == 0) copied = count;
        else if (fstat(to, &status) == 0 && status.st_size != 0 && ftruncate(to, 0) != 0) copied = 0;
    }
    if (copied < 0) {
        // One call copies at most 64 MiB: a call cannot be interrupted, and 1 GiB takes seconds on a slow disk.
        if (count > COPY_BYTES) count = COPY_BYTES;
        int64_t source = offset, target = position;
        do copied = call ? call(from, &source, to, &target, (size_t)count, 0)
                         : copy_file_range(from, (__off64_t *)&source, to, (__off64_t *)&target, (size_t)count, 0);
        while (copied < 0 && errno == EINTR);
        if (copied < 0) {
            switch (errno) {
                case ENOSPC: case EDQUOT: case EFBIG: copied = -errno; break;
                // EIO does not say which of the two files is damaged. The caller then reads and writes the bytes, and
                // gets the error of the damaged file.
                default: copied = 0;
            }
        }
    }
    // The flag is restored, because a later write without it would go to the start of the file.
    if (flags & O_APPEND && fcntl(to, F_SETFL, flags) != 0) return -errno;
    return copied;
}
#endif
