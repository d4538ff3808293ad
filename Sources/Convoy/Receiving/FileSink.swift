// Where a download lands: a temporary name beside the target, then a rename.
import Foundation

/// Writes a body to a file that appears under its final name only when it is complete.
///
/// The disk is written on a queue of the sink's own, so that a slow one holds up no other transfer; at most some MiB wait
/// for it. Where the transport cannot be held, its thread waits for the write.
final class FileSink: BodySink {
    private struct State {
        var waiting: [Data] = []
        var backlog = Backlog(highWaterBytes: 2 << 20)
        var isWriting = false
        var isOver = false
    }

    private let file: PartFile
    private let calls: SinkCalls
    private let queue = DispatchQueue(label: "convoy.file")
    private let state = Locked(State())

    init(target: URL, calls: SinkCalls) {
        file = PartFile(target: target)
        self.calls = calls
    }

    var isHeld: Bool { state.withLock { $0.backlog.isHeld } }

    func write(_ data: Data) throws(RequestError) {
        let begins = state.withLock { state in
            state.waiting.append(data)
            state.backlog.add(data.count)
            defer { state.isWriting = true }
            return !state.isWriting
        }
        guard calls.canHold else {
            let problem: RequestError? = queue.sync { writeWaiting() }
            if let problem { throw problem }
            return
        }
        if begins {
            queue.async {
                if let problem = self.writeWaiting() { self.calls.fail(problem) }
            }
        }
    }

    func finish(_ completion: @escaping @Sendable (Result<ReceivedBody, RequestError>) -> Void) {
        queue.async {
            // What failed to be written has been told.
            guard !self.state.withLock({ $0.isOver }) else { return }
            do throws(RequestError) { try self.file.commit() } catch { return completion(.failure(error)) }
            completion(.success(ReceivedBody()))
        }
    }

    func discard(_ completion: @escaping @Sendable () -> Void) {
        let waiting = state.withLock { state in
            state.isOver = true
            defer { state.waiting = [] }
            return state.waiting
        }
        withExtendedLifetime(waiting) {}
        let remove: @Sendable () -> Void = { self.file.remove() }
        if calls.canHold {
            queue.async {
                remove()
                completion()
            }
        } else {
            queue.sync(execute: remove)
            completion()
        }
    }

    /// Writes until nothing waits; the result is why that cannot be done, once.
    ///
    /// - Thread: the sink's queue.
    private func writeWaiting() -> RequestError? {
        while true {
            let pieces: [Data] = state.withLock { state in
                defer { state.waiting = [] }
                if state.waiting.isEmpty || state.isOver { state.isWriting = false }
                return state.isOver ? [] : state.waiting
            }
            if pieces.isEmpty { return nil }
            for piece in pieces {
                do throws(RequestError) { try file.write(piece) } catch {
                    let isFirst = state.withLock { state in
                        defer { state.isOver = true }
                        return !state.isOver
                    }
                    file.remove()
                    return isFirst ? error : nil
                }
                if state.withLock({ $0.backlog.remove(piece.count) }) { calls.caughtUp() }
            }
        }
    }
}

/// The temporary file; used on the sink's queue only.
private final class PartFile: @unchecked Sendable {
    // @unchecked: one serial queue uses it, after its initialiser.
    private let target: URL
    private let temporary: String
    /// The open descriptor, or -1.
    private var descriptor: Int32 = -1
    /// Whether it has its final name, or is gone.
    private var isDone = false

    init(target: URL) {
        self.target = target
        temporary = target.deletingLastPathComponent().path + "/.convoy-\(UUID().uuidString).part"
    }

    deinit { remove() }

    /// Makes the file, the first time.
    private func open() throws(RequestError) {
        guard descriptor < 0, !isDone else { return }
        // Never an existing file, never through a symbolic link, never inherited by a child process.
        descriptor = Foundation.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else { throw failure("could not be created", temporary, errno) }
    }

    func write(_ data: Data) throws(RequestError) {
        try open()
        guard descriptor >= 0 else { return }
        let problem: Int32? = data.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let piece = UnsafeRawBufferPointer(rebasing: rest)
                let written = Foundation.write(descriptor, piece.baseAddress, piece.count)
                if written > 0 {
                    rest = rest.dropFirst(written)
                } else if written == 0 || errno != EINTR {
                    return written == 0 ? ENOSPC : errno
                }
            }
            return nil
        }
        if let problem { throw failure("could not be written", target.path, problem) }
    }

    /// Gives the file its final name.
    func commit() throws(RequestError) {
        try open()
        isDone = true
        // A late write error, of a network file system for example, shows when the file is closed.
        let isClosed = descriptor >= 0 && close(descriptor) == 0
        let what = isClosed ? "could not be put in its place" : "could not be written"
        descriptor = -1
        guard isClosed, rename(temporary, target.path) == 0 else {
            let problem = errno
            unlink(temporary)
            throw failure(what, target.path, problem)
        }
    }

    func remove() {
        isDone = true
        guard descriptor >= 0 else { return }
        close(descriptor)
        descriptor = -1
        unlink(temporary)
    }

    private func failure(_ what: String, _ path: String, _ code: Int32) -> RequestError {
        let code = POSIXErrorCode(rawValue: code) ?? .EIO
        return RequestError(
            .destinationUnwritable, "the file \(path) \(what): \(POSIXError(code).localizedDescription)",
            underlying: POSIXError(code))
    }
}
