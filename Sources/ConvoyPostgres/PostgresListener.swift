import Convoy
import Foundation

/// Listens from the first stream until `close`; a lost connection is reopened.
final class PostgresListener: Sendable {
    private struct State {
        var streams: [UUID: AsyncStream<Void>.Continuation] = [:]
        var isRunning = false
        var isClosed = false
    }

    private let address: String
    private let queue = DispatchQueue(label: "convoy.postgres.listen")
    private let state = Locked(State())
    /// `close` closes the writing end, and the reading end then becomes readable, which ends a wait.
    private let wakeup = Pipe()

    init(_ address: String) { self.address = address }

    func changes() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let name = UUID()
        continuation.onTermination = { [weak self] _ in self?.state.withLock { $0.streams[name] = nil } }
        let (isClosed, isFirst) = state.withLock { state in
            guard !state.isClosed else { return (true, false) }
            defer { state.isRunning = true }
            state.streams[name] = continuation
            return (false, !state.isRunning)
        }
        if isClosed { continuation.finish() }
        if isFirst { queue.async { self.listen() } }
        return stream
    }

    func close() {
        let streams = state.withLock { state in
            state.isClosed = true
            defer { state.streams = [:] }
            return Array(state.streams.values)
        }
        try? wakeup.fileHandleForWriting.close()
        for stream in streams { stream.finish() }
    }

    private var isClosed: Bool { state.withLock { $0.isClosed } }

    private func tell() {
        for stream in state.withLock({ Array($0.streams.values) }) { stream.yield() }
    }

    private func listen() {
        var pause = Duration.milliseconds(20)
        while !isClosed {
            do {
                let connection = try PostgresConnection(address, within: PostgresSession.usualPatience)
                try connection.run("LISTEN convoy_jobs")
                pause = .milliseconds(20)
                // The listener missed the notifications that were sent before it was connected.
                tell()
                while !isClosed {
                    let wakeup = wakeup.fileHandleForReading.fileDescriptor
                    if try connection.isNotified(within: .seconds(600), wakeup: wakeup) { tell() }
                }
            } catch {
                var descriptor = pollfd(
                    fd: wakeup.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
                _ = poll(&descriptor, 1, Int32(pause / .milliseconds(1)))
                pause = min(pause * 2, .seconds(10))
            }
        }
    }
}
