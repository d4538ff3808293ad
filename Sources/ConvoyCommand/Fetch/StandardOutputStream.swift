// A body on standard output.
import Foundation

/// Writes a body to standard output as it comes.
///
/// What has been written cannot be taken back: a body that begins again fails.
///
/// ## Concurrency
/// Used by one transfer at a time, on a queue of its own; the state may be used from any thread.
final class StandardOutputStream: OutputStream {
    /// What is known of standard output.
    final class State: Sendable {
        private let written = Locked(false)
        private let onClosed: @Sendable () -> Void

        init(onClosed: @escaping @Sendable () -> Void) { self.onClosed = onClosed }

        var hasWritten: Bool { written.withLock { $0 } }

        /// Writes everything, and says why not.
        func write(_ bytes: UnsafeRawBufferPointer) -> Int32 {
            guard StandardStreams.isGiven(STDOUT_FILENO) else { return told(EBADF) }
            if !bytes.isEmpty { written.withLock { $0 = true } }
            var rest = bytes[...]
            while !rest.isEmpty {
                let piece = UnsafeRawBufferPointer(rebasing: rest)
                let count = Foundation.write(STDOUT_FILENO, piece.baseAddress, piece.count)
                if count > 0 {
                    rest = rest.dropFirst(count)
                } else if count == 0 {
                    return told(EIO)
                } else if errno == EAGAIN {
                    StandardStreams.wait(for: STDOUT_FILENO, POLLOUT)
                } else if errno != EINTR {
                    return told(errno)
                }
            }
            return 0
        }

        func write(_ text: String) -> Int32 {
            var text = text
            return text.withUTF8 { write(UnsafeRawBufferPointer($0)) }
        }

        private func told(_ problem: Int32) -> Int32 {
            if [EPIPE, EBADF].contains(problem) { onClosed() }
            return problem
        }
    }

    private var state: State?
    private var status = Stream.Status.notOpen
    private var problem: (any Error)?

    static func make(_ state: State) -> StandardOutputStream {
        // The initializers of this class are required ones: none of its own can take anything.
        let stream = StandardOutputStream(toMemory: ())
        stream.state = state
        return stream
    }

    override var streamStatus: Stream.Status { status }
    override var streamError: (any Error)? { problem }
    override var hasSpaceAvailable: Bool { status == .open }

    override func open() {
        status = .open
        guard state?.hasWritten == true else { return }
        fail("the body began again, and what has been printed cannot be taken back; write it to a file")
    }

    override func close() { if status != .error { status = .closed } }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength count: Int) -> Int {
        guard status == .open, let state else { return -1 }
        let code = state.write(UnsafeRawBufferPointer(start: buffer, count: count))
        guard code != 0 else { return count }
        fail("standard output cannot be written: \(String(cString: strerror(code)))")
        return -1
    }

    private func fail(_ reason: String) {
        status = .error
        problem = NSError(domain: "convoy", code: 1, userInfo: [NSLocalizedDescriptionKey: reason])
    }
}
