// The subjects that send small requests, and the check of a response.
import ArgumentParser
import Foundation

/// An HTTP client that is measured.
enum RequestSubject: String, CaseIterable, ExpressibleByArgument {
    case convoy
    case convoyInPlace = "convoy-inplace"
    case convoySend = "convoy-send"
    case convoyEnqueue = "convoy-enqueue"
    case urlSession = "urlsession"
    case asyncHTTPClient = "async-http-client"
    case asyncHTTPClientAsync = "async-http-client-async"
    #if os(Linux)
        case libcurl
    #endif

    /// The text of the help: each subject, and how it sends requests.
    static let descriptions = """
        convoy (a lazy batch), convoy-inplace (the same with callbacks in place), convoy-send (as many tasks as the \
        concurrency, each awaiting send), convoy-enqueue (enqueue with a handler that enqueues the next), urlsession (one \
        ephemeral session without cache and cookies, with a delegate on its default queue), async-http-client (event loop \
        futures), async-http-client-async (its async functions in a task group), libcurl (a bare multi loop in C, which \
        uses its handles again; Linux only).
        """

    func makeSender(_ spec: CaseSpec, _ url: URL) throws -> any RequestSender {
        switch self {
        case .convoy: try ConvoyBatchSender(spec, url)
        case .convoyInPlace: try ConvoyBatchSender(spec, url, callbacks: .inPlace)
        case .convoySend: try ConvoyTaskSender(spec, url)
        case .convoyEnqueue: try ConvoyEnqueueSender(spec, url)
        case .urlSession: URLSessionSender(spec, url)
        case .asyncHTTPClient: FutureSender(spec, url)
        case .asyncHTTPClientAsync: TaskGroupSender(spec, url)
        #if os(Linux)
            case .libcurl: LibcurlSender(spec, url)
        #endif
        }
    }
}

/// Sends requests with one HTTP client.
protocol RequestSender {
    /// Sends `count` requests with the concurrency of the case.
    ///
    /// Returns when the tally has counted the last outcome.
    func send(_ count: Int, _ tally: Tally) async
    /// Closes the client.
    func end() async throws
}

extension RequestSender {
    func end() async throws {}
}

/// Sends the requests of the warm-up, then measures the others.
func measureRequests(_ spec: CaseSpec) async throws -> Measurement {
    guard let url = spec.url, let subject = RequestSubject(rawValue: spec.subject) else {
        throw BenchmarkError("there is no subject \(spec.subject), or no URL")
    }
    let sender = try subject.makeSender(spec, url)
    let warmup = Tally()
    await sender.send(spec.warmup, warmup)
    let tally = Tally()
    let watch = Stopwatch()
    await sender.send(spec.count, tally)
    let reading = watch.read()
    try await sender.end()
    var result = Measurement(spec)
    result.add(reading)
    result.bytesPerSecond = Double(spec.bodyBytes * (spec.count - tally.errors.count)) / reading.seconds
    result.add(tally)
    result.add(warmup)
    return result
}

extension CaseSpec {
    /// The defect of a response; nil without one.
    func defect(statusCode: Int, bytes: Int) -> String? {
        if statusCode != 200 { return "the server answered \(statusCode)" }
        return bytes == bodyBytes ? nil : "the body had \(bytes) bytes instead of \(bodyBytes)"
    }
}
