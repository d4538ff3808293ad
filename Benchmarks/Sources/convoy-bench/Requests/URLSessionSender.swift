// Bare URLSession in its cheapest form: one session and one delegate.
import Foundation
import Synchronization

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Sends data tasks, with a delegate on the session's default queue.
struct URLSessionSender: RequestSender {
    private let spec: CaseSpec
    private let url: URL
    private let session: URLSession
    private let delegate: Receiver

    init(_ spec: CaseSpec, _ url: URL) {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.urlCache = nil
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        configuration.httpMaximumConnectionsPerHost = spec.concurrency
        delegate = Receiver(spec, url)
        session = URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
        (self.spec, self.url) = (spec, url)
    }

    func send(_ count: Int, _ tally: Tally) async {
        delegate.begin(Turns(count), tally)
        for _ in 0..<spec.concurrency { delegate.startNext(in: session) }
        await tally.reached(count)
    }
}

/// Counts the bytes of each task, and starts the next task when one has ended.
private final class Receiver: NSObject, URLSessionDataDelegate, Sendable {
    private struct State {
        var turns = Turns(0)
        var tally = Tally()
        /// The received bytes, by task identifier.
        var bytes: [Int: Int] = [:]
    }

    private let spec: CaseSpec
    private let url: URL
    private let state = Mutex(State())

    init(_ spec: CaseSpec, _ url: URL) { (self.spec, self.url) = (spec, url) }

    func begin(_ turns: Turns, _ tally: Tally) {
        state.withLock { state in
            state.turns = turns
            state.tally = tally
        }
    }

    func startNext(in session: URLSession) {
        guard state.withLock({ $0.turns }).take() else { return }
        session.dataTask(with: URLRequest(url: url)).resume()
    }

    func urlSession(_: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        state.withLock { $0.bytes[dataTask.taskIdentifier, default: 0] += data.count }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let (bytes, tally) = state.withLock { state in
            (state.bytes.removeValue(forKey: task.taskIdentifier) ?? 0, state.tally)
        }
        let status = (task.response as? HTTPURLResponse)?.statusCode ?? 0
        tally.add(error.map { "\($0)" } ?? spec.defect(statusCode: status, bytes: bytes))
        startNext(in: session)
    }
}
