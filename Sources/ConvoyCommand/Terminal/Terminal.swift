// The capabilities of a descriptor's terminal.
import Foundation

/// A descriptor that may be a terminal.
struct Terminal: Sendable {
    /// Columns and lines.
    struct Size: Equatable, Sendable {
        var width = 80
        var height = 24
    }

    let descriptor: Int32

    static let output = Terminal(descriptor: STDOUT_FILENO)
    static let errors = Terminal(descriptor: STDERR_FILENO)

    /// Whether it is a terminal at all.
    var isTerminal: Bool { isatty(descriptor) == 1 }

    /// Whether it is a pipe to another program.
    var isPipe: Bool {
        var status = stat()
        return fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
    }

    /// Whether the process is in the foreground there; true when unknown.
    var isForeground: Bool {
        let group = tcgetpgrp(descriptor)
        return group < 0 || group == getpgrp()
    }

    /// Whether its cursor can be moved.
    var canRedraw: Bool { isTerminal && ProcessInfo.processInfo.environment["TERM"] != "dumb" }

    /// Whether colours are supported and wanted: `NO_COLOR` is not set (https://no-color.org).
    var hasColour: Bool { canRedraw && (ProcessInfo.processInfo.environment["NO_COLOR"] ?? "").isEmpty }

    /// Its current size; 80 by 24 when unknown.
    var size: Size {
        var window = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &window) == 0, window.ws_col > 0, window.ws_row > 0 else {
            return Size()
        }
        return Size(width: Int(window.ws_col), height: Int(window.ws_row))
    }

    /// Shows the cursor, even during other output.
    ///
    /// Does nothing if there is no terminal, or if writing would block.
    func restoreCursor() {
        // A terminal with stopped output accepts nothing, and would block a process that has to end.
        var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        guard canRedraw, poll(&request, 1, 0) > 0 else { return }
        _ = StandardStreams.write(LiveRegion.showCursor, to: descriptor)
    }
}
