// Bare URLSession: a delegate that writes to a file or reads, and an upload task.
import Foundation
import Synchronization

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// One ephemeral session without cache and cookies, with a delegate on its default queue.
struct URLSessionTransfers: TransferPeer {
    private let session: URLSession
    private let delegate = BodyTaker()

    init() {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.urlCache = nil
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        session = URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
    }

    func save(_ url: URL, to file: URL) async throws {
        guard FileManager.default.createFile(atPath: file.path, contents: nil) else {
            throw BenchmarkError("the file \(file.path) could not be made")
        }
        let handle = try FileHandle(forWritingTo: file)
        try await delegate.run(session.dataTask(with: URLRequest(url: url))) { data in
            try handle.write(contentsOf: data)
            return true
        }
        try handle.close()
    }

    func read(_ url: URL, _ reader: PacedReader) async throws {
        // URLSession slows the sender down only if the delegate blocks its thread.
        try await delegate.run(session.dataTask(with: URLRequest(url: url))) { reader.takeBlocking($0.count) }
    }

    func send(_ file: URL, to url: URL) async throws {
        var request = URLRequest(url: url)
        request.httpMethod = "PUT"
        try await delegate.run(session.uploadTask(with: request, fromFile: file)) { _ in true }
    }
}

/// Receives the body of one task at a time.
private final class BodyTaker: NSObject, URLSessionDataDelegate, Sendable {
    private struct State {
        var take: @Sendable (Data) throws -> Bool = { _ in true }
        var failure: (any Error)?
        var hasLeft = false
        var continuation: CheckedContinuation<Void, any Error>?
    }

    private let state = Mutex(State())

    /// Runs a task to its end, or until `take` returns false.
    func run(_ task: URLSessionTask, taking take: @escaping @Sendable (Data) throws -> Bool) async throws {
        try await withCheckedThrowingContinuation { continuation in
            state.withLock { $0 = State(take: take, continuation: continuation) }
            task.resume()
        }
    }

    func urlSession(_: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        let (take, isOver) = state.withLock { ($0.take, $0.hasLeft || $0.failure != nil) }
        guard !isOver else { return }
        do {
            if try take(data) { return }
            conclude(nil)
        } catch {
            conclude(error)
        }
        dataTask.cancel()
    }

    func urlSession(_: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let statusCode = (task.response as? HTTPURLResponse)?.statusCode ?? 0
        let isGood = (200..<300).contains(statusCode)
        conclude(error ?? (isGood ? nil : BenchmarkError("the server answered \(statusCode)")))
    }

    /// Resumes the caller that waits in `run`; later calls have no effect.
    private func conclude(_ error: (any Error)?) {
        let continuation = state.withLock { state in
            state.hasLeft = true
            if state.failure == nil { state.failure = error }
            defer { state.continuation = nil }
            return state.continuation
        }
        if let error { continuation?.resume(throwing: error) } else { continuation?.resume() }
    }
}
