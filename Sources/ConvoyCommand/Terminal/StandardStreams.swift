// Descriptors 0, 1 and 2.
import Foundation

enum StandardStreams {
    /// Which of the three are really those the process was given.
    ///
    /// When one was closed, the runtime may have opened a descriptor of its own in its place before `main`: on Linux
    /// that is an epoll or an event descriptor, which has no file type. Writing there would do harm.
    private static let given: Set<Int32> = Set(
        (0...2).filter { descriptor in
            var status = stat()
            return fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT != 0
        })

    /// Whether the process was given this stream.
    static func isGiven(_ descriptor: Int32) -> Bool { !(0...2).contains(descriptor) || given.contains(descriptor) }

    /// Fills descriptors that were closed before the start, so that no file or socket of ours is opened in their place.
    ///
    /// Each in the wrong direction: reading closed input and writing to closed output still fails.
    static func secure() {
        _ = given
        for descriptor: Int32 in 0...2 where fcntl(descriptor, F_GETFD) == -1 && errno == EBADF {
            // The lowest free descriptor is taken, which is this one.
            _ = open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY)
        }
    }

    /// Writes everything, or says why not.
    ///
    /// - Returns: 0, or the error number.
    static func write(_ text: String, to descriptor: Int32) -> Int32 {
        guard isGiven(descriptor) else { return EBADF }
        var text = text
        return text.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)[...]
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
    }

    /// Waits until a descriptor that does not block is ready.
    static func wait(for descriptor: Int32, _ events: some BinaryInteger) {
        var request = pollfd(fd: descriptor, events: Int16(events), revents: 0)
        _ = poll(&request, 1, -1)
    }
}
