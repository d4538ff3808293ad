// How processes that share a database tell each other of changes.
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
        var isClosed = false
    }

    /// Whether other processes are heard.
    let isHeard: Bool
    private let path: String
    private let state = Locked(State())

    init(in directory: URL) {
        path = directory.appending(path: "bell").path
        let made = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        if made >= 0 { close(made) }
        let queue = DispatchQueue(label: "convoy.queue.bell")
        #if os(Linux)
            let watch = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
            isHeard =
                watch >= 0
                && inotify_add_watch(watch, directory.path, UInt32(IN_ATTRIB | IN_CLOSE_WRITE)) >= 0
            guard isHeard else {
                if watch >= 0 { close(watch) }
                return
            }
            let source: any DispatchSourceProtocol = DispatchSource.makeReadSource(fileDescriptor: watch, queue: queue)
        #else
            let watch = open(path, O_EVTONLY | O_CLOEXEC)
            isHeard = watch >= 0
            guard isHeard else { return }
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
        state.withLock { $0.source = source }
        source.activate()
    }

    deinit { shutDown() }

    /// Tells the other processes, and the listeners here.
    func ring() {
        utimes(path, nil)
        if !isHeard { tell() }
    }

    func listen() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let isClosed = state.withLock { state in
            if !state.isClosed { state.listeners.append(continuation) }
            return state.isClosed
        }
        if isClosed { continuation.finish() }
        return stream
    }

    private func tell() {
        for listener in state.withLock({ $0.listeners }) { listener.yield() }
    }

    func shutDown() {
        let (listeners, source) = state.withLock { state in
            defer { state = State(isClosed: true) }
            return (state.listeners, state.source)
        }
        for listener in listeners { listener.finish() }
        source?.cancel()
    }
}
