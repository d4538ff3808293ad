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

    var isTerminal: Bool { isatty(descriptor) == 1 }

    /// Whether the descriptor is a pipe to another program.
    var isPipe: Bool { FileType.of(descriptor) == S_IFIFO }

    /// Whether the process is in the foreground of the terminal; true if unknown.
    var isForeground: Bool {
        let group = tcgetpgrp(descriptor)
        return group < 0 || group == getpgrp()
    }

    /// Whether the cursor of the terminal can be moved.
    var canRedraw: Bool { isTerminal && ProcessInfo.processInfo.environment["TERM"] != "dumb" }

    /// Whether colours are supported and wanted: `NO_COLOR` is missing or empty (https://no-color.org).
    var hasColour: Bool { canRedraw && (ProcessInfo.processInfo.environment["NO_COLOR"] ?? "").isEmpty }

    /// The current size of the terminal; 80 columns by 24 lines if unknown.
    var size: Size {
        var window = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &window) == 0, window.ws_col > 0, window.ws_row > 0 else {
            return Size()
        }
        return Size(width: Int(window.ws_col), height: Int(window.ws_row))
    }

    /// Shows the cursor, even while another thread writes.
    ///
    /// Does nothing if the descriptor is not a terminal, or if writing would block.
    func restoreCursor() {
        // A terminal with stopped output (Ctrl-S) would block the write, and so the exit of the process.
        var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        guard canRedraw, poll(&request, 1, 0) > 0 else { return }
        _ = StandardStreams.write(LiveRegion.showCursor, to: descriptor)
    }
}
