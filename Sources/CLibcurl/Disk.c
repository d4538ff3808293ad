// This file is for Linux only.
#ifdef __linux__
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // syncfs, sync_file_range
#endif
#include "CLibcurl.h"

#include <errno.h>
#include <fcntl.h>
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
#endif
