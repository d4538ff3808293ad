// The standard streams: descriptors 0, 1 and 2.
import Foundation

enum StandardStreams {
    /// The standard streams that were open when the process started.
    ///
    /// If one of the three was closed, the runtime may have opened a descriptor with the same number before `main`. On
    /// Linux that is an epoll or event descriptor, which has no file type. Writing to that descriptor would disturb the
    /// runtime.
    private static let given: Set<Int32> = Set((0...2).filter { FileType.of($0) ?? 0 != 0 })

    /// Whether a standard stream was open at the start; true for every other descriptor.
    static func isGiven(_ descriptor: Int32) -> Bool { !(0...2).contains(descriptor) || given.contains(descriptor) }

    /// Opens /dev/null for descriptors that were closed at the start, so that no file or socket gets their number.
    ///
    /// Descriptor 0 is opened for writing, 1 and 2 for reading. So reading closed input and writing to closed output
    /// still fail.
    static func secure() {
        _ = given
        for descriptor: Int32 in 0...2 where fcntl(descriptor, F_GETFD) == -1 && errno == EBADF {
            // `open` returns the lowest free descriptor, which is `descriptor`.
            _ = open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY)
        }
    }

    static func write(_ text: String, to descriptor: Int32) -> Int32 {
        var text = text
        return text.withUTF8 { write(UnsafeRawBufferPointer($0), to: descriptor) }
    }

    /// Writes all bytes.
    ///
    /// - Returns: 0, or the `errno` of the failed write.
    static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int32 {
        guard isGiven(descriptor) else { return EBADF }
        var rest = bytes[...]
        while !rest.isEmpty {
            let piece = UnsafeRawBufferPointer(rebasing: rest)
            let written = Foundation.write(descriptor, piece.baseAddress, piece.count)
            if written > 0 {
                rest = rest.dropFirst(written)
            } else if written == 0 {
                return EIO
            } else if errno == EAGAIN {
                wait(for: descriptor, POLLOUT)
            } else if errno != EINTR {
                return errno
            }
        }
        return 0
    }

    /// Waits until a non-blocking descriptor is ready.
    static func wait(for descriptor: Int32, _ events: some BinaryInteger) {
        var request = pollfd(fd: descriptor, events: Int16(events), revents: 0)
        _ = poll(&request, 1, -1)
    }
}
