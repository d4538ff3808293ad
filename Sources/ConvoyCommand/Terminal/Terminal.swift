import Foundation

struct Terminal: Sendable {
    struct Size: Equatable, Sendable {
        var width = 80
        var height = 24
    }

    let descriptor: Int32

    static let output = Terminal(descriptor: STDOUT_FILENO)
    static let errors = Terminal(descriptor: STDERR_FILENO)

    var isTerminal: Bool { isatty(descriptor) == 1 }

    var isPipe: Bool { FileType.of(descriptor) == S_IFIFO }

    var isForeground: Bool {
        let group = tcgetpgrp(descriptor)
        return group < 0 || group == getpgrp()
    }

    var canRedraw: Bool { isTerminal && ProcessInfo.processInfo.environment["TERM"] != "dumb" }

    /// Whether colours are supported and wanted: `NO_COLOR` is missing or empty (https://no-color.org).
    var hasColour: Bool { canRedraw && (ProcessInfo.processInfo.environment["NO_COLOR"] ?? "").isEmpty }

    var size: Size {
        var window = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &window) == 0, window.ws_col > 0, window.ws_row > 0 else {
            return Size()
        }
        return Size(width: Int(window.ws_col), height: Int(window.ws_row))
    }

    // Does nothing if the descriptor is not a terminal, or if writing would block.
    func restoreCursor() {
        // A terminal with stopped output (Ctrl-S) would block the write, and so the exit of the process.
        var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        guard canRedraw, poll(&request, 1, 0) > 0 else { return }
        _ = StandardStreams.write(LiveRegion.showCursor, to: descriptor)
    }
}

enum StandardStreams {
    // If a standard stream was closed, the runtime may have opened a descriptor with the same number before `main`. On
    // Linux that is an epoll or event descriptor, which has no file type; writing to it would disturb the runtime.
    private static let given: Set<Int32> = Set((0...2).filter { FileType.of($0) ?? 0 != 0 })

    static func isGiven(_ descriptor: Int32) -> Bool { !(0...2).contains(descriptor) || given.contains(descriptor) }

    // No file or socket may get the number of a standard stream. Descriptor 0 is opened for writing, 1 and
    // 2 for reading, so reading closed input and writing to closed output still fail.
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

    static func wait(for descriptor: Int32, _ events: some BinaryInteger) {
        var request = pollfd(fd: descriptor, events: Int16(events), revents: 0)
        _ = poll(&request, 1, -1)
    }
}
