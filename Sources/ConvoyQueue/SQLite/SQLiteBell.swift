import Convoy
// libdispatch's objects are thread-safe, but on Linux their protocols are not marked `Sendable`.
@preconcurrency import Dispatch
import Foundation

// Other processes watch the file's directory (Linux) or the file itself (Apple platforms). On Linux, they also notice
// the end of a process, because the kernel then closes the process's lock file in that directory. If nothing can be
// watched, queues poll their store instead.
final class SQLiteBell: Sendable {
    private struct State {
        var listeners: [AsyncStream<Void>.Continuation] = []
        var source: (any DispatchSourceProtocol)?
        var isWatching = false
        var isClosed = false
    }

    let isHeard: Bool
    private let path: String
    // The dispatch source closes the descriptor. Without a source, ``shutDown()`` closes it.
    private let watch: Int32
    private let state = Locked(State())

    init(in directory: URL) {
        path = directory.appending(path: "bell").path
        Self.makeFile(path)
        #if os(Linux)
            watch = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
            isHeard = watch >= 0 && Self.follows(directory.path, watch)
        #else
            watch = open(path, O_EVTONLY | O_CLOEXEC)
            isHeard = watch >= 0
        #endif
    }

    deinit { shutDown() }

    func ring() {
        // Another program may have removed the file. It is then created again. On Linux the directory is watched, so
        // the creation also notifies other processes.
        let isTouched = utimes(path, nil) == 0
        if !isTouched { Self.makeFile(path) }
        if !isHeard || !isTouched { tell() }
    }

    #if os(Linux)
        /// A second call for the same directory has no effect.
        private static func follows(_ directory: String, _ watch: Int32) -> Bool {
            inotify_add_watch(watch, directory, UInt32(IN_ATTRIB | IN_CLOSE_WRITE | IN_DELETE)) >= 0
        }

    #endif

    private func noteEvent() {
        #if os(Linux)
            let directory = URL(fileURLWithPath: path).deletingLastPathComponent()
            let file = directory.deletingLastPathComponent().path.dropLast("-convoy".count)
            if !state.withLock({ $0.isClosed }), access(String(file), F_OK) == 0 {
                SQLiteOwners.makeAgain(directory)
                _ = Self.follows(directory.path, watch)
            }
        #endif
        tell()
    }

    private static func makeFile(_ path: String) {
        let made = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        if made >= 0 { close(made) }
    }

    func listen() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let (isClosed, isFirst) = state.withLock { state in
            guard !state.isClosed else { return (true, false) }
            defer { state.isWatching = true }
            state.listeners.append(continuation)
            return (false, !state.isWatching)
        }
        if isClosed { continuation.finish() }
        if isFirst, isHeard { beginWatching() }
        return stream
    }

    private func beginWatching() {
        let (queue, watch) = (DispatchQueue(label: "convoy.queue.bell"), watch)
        #if os(Linux)
            let source: any DispatchSourceProtocol = DispatchSource.makeReadSource(fileDescriptor: watch, queue: queue)
        #else
            let source: any DispatchSourceProtocol = DispatchSource.makeFileSystemObjectSource(
                fileDescriptor: watch, eventMask: .attrib, queue: queue)
        #endif
        source.setEventHandler { [weak self] in
            #if os(Linux)
                var buffer = [UInt8](repeating: 0, count: 4_096)
                while read(watch, &buffer, buffer.count) > 0 {}
            #endif
            self?.noteEvent()
            // An event may come too early: the kernel reports the closing of a lock file just before it releases the
            // lock, and the removal of files just before that of their directory. So the handler repeats its steps
            // after 100 ms.
            queue.asyncAfter(deadline: .now() + .milliseconds(100)) { [weak self] in self?.noteEvent() }
        }
        source.setCancelHandler { close(watch) }
        let isClosed = state.withLock { state in
            if !state.isClosed { state.source = source }
            return state.isClosed
        }
        source.activate()
        if isClosed { source.cancel() }
    }

    private func tell() {
        for listener in state.withLock({ $0.listeners }) { listener.yield() }
    }

    func shutDown() {
        let before = state.withLock { state in
            defer { state = State(isClosed: true) }
            return state
        }
        guard !before.isClosed else { return }
        for listener in before.listeners { listener.finish() }
        if let source = before.source {
            source.cancel()
        } else if !before.isWatching || !isHeard, watch >= 0 {
            close(watch)
        }
    }
}
