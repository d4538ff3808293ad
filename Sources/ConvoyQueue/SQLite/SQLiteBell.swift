// How processes that share a database tell each other of changes.
import Convoy
// libdispatch's objects may be used from any thread; on Linux their protocols do not say so.
@preconcurrency import Dispatch
import Foundation

/// A file beside the database that is touched after each change; those that watch its directory are told.
///
/// They are told of the end of a process too: its owner file is closed then, however it ended (Linux). What is missed costs a
/// delay, never a job: queues look at their store now and then all the same.
final class SQLiteBell: Sendable {
    private struct State {
        var listeners: [AsyncStream<Void>.Continuation] = []
        var source: (any DispatchSourceProtocol)?
        var isWatching = false
        var isClosed = false
    }

    /// Whether other processes are heard.
    let isHeard: Bool
    private let path: String
    /// What the system tells of; closed with its source, or by ``shutDown()`` when it never had one.
    private let watch: Int32
    private let state = Locked(State())

    init(in directory: URL) {
        path = directory.appending(path: "bell").path
        let made = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        if made >= 0 { close(made) }
        #if os(Linux)
            watch = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
            isHeard =
                watch >= 0
                && inotify_add_watch(watch, directory.path, UInt32(IN_ATTRIB | IN_CLOSE_WRITE)) >= 0
        #else
            watch = open(path, O_EVTONLY | O_CLOEXEC)
            isHeard = watch >= 0
        #endif
    }

    deinit { shutDown() }

    /// Tells the other processes, and the listeners here.
    func ring() {
        utimes(path, nil)
        if !isHeard { tell() }
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

    /// From the first listener on: in a process that only adds no thread wakes at each addition.
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
            self?.tell()
            // A file is told to be closed just before its lock is given back.
            queue.asyncAfter(deadline: .now() + .milliseconds(100)) { [weak self] in self?.tell() }
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
