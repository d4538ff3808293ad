// Requests of Foundation's.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension Request where Output: Decodable {
    /// Describes what a `URLRequest` does: its method, URL, header fields, body and timeout.
    ///
    /// The output is made as by `init(method:url:)`. A body is its `httpBody`, else its `httpBodyStream`, which can be read
    /// once: such a request is sent once, and not again for a redirect or a retry. A `timeoutInterval` other than
    /// Foundation's 60 seconds is the ``idleTimeout(_:)``. What is about a loader of Foundation's (cache policy, cookies,
    /// kinds of network) is left out. A request without a URL is refused, see ``defect``.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public init(_ request: URLRequest) {
        self.init(method: HTTPMethod(rawValue: request.httpMethod ?? "GET"), url: request.url?.absoluteString ?? "")
        core.take(request)
    }
}

extension Request where Output == Data {
    /// Describes what a `URLRequest` does, for the raw body of its answer.
    public init(_ request: URLRequest) {
        self.init(method: HTTPMethod(rawValue: request.httpMethod ?? "GET"), url: request.url?.absoluteString ?? "")
        core.take(request)
    }
}

extension Request where Output == Void {
    /// Describes what a `URLRequest` does; the body of its answer is dropped.
    public init(_ request: URLRequest) {
        self.init(method: HTTPMethod(rawValue: request.httpMethod ?? "GET"), url: request.url?.absoluteString ?? "")
        core.take(request)
    }
}

extension RequestCore {
    fileprivate mutating func take(_ request: URLRequest) {
        // A dictionary has no order that lasts.
        for (name, value) in (request.allHTTPHeaderFields ?? [:]).sorted(by: { $0.key < $1.key }) {
            headerFields.add(name, value)
        }
        if let data = request.httpBody {
            body = .data(data)
        } else if let stream = request.httpBodyStream {
            let given = GivenStream(stream: stream)
            let byteCount = headerFields["Content-Length"].flatMap { Int64($0) }
            take(.stream(byteCount: byteCount, canRepeat: false) { given.stream })
        }
        let timeout = request.timeoutInterval
        guard timeout != 60, timeout > 0 else { return }
        policies.idleTimeout = .seconds(min(timeout, 1e9))
    }
}

/// A stream on its way from the caller to the body's queue.
private struct GivenStream: @unchecked Sendable {
    // @unchecked: `InputStream` is not Sendable. A body that cannot be repeated is begun once, and its queue alone uses it.
    let stream: InputStream
}

extension URLRequest {
    /// The request as Foundation describes one: URL, method, header fields, body and timeout.
    ///
    /// What the manager would add (its defaults, cookies, interceptors) is not there. A body in memory becomes `httpBody`,
    /// any other a stream that can be read once.
    ///
    /// - Parameters:
    ///   - request: checked as it is when it is sent.
    ///   - baseURL: what a relative URL is resolved against, as ``RequestManager/Configuration/baseURL``.
    /// - Throws: `.invalidRequest` for one that cannot be sent, `.bodyUnreadable` for a file that cannot be read.
    public init<Output>(_ request: Request<Output>, relativeTo baseURL: URL? = nil) throws(RequestError) {
        self.init(try PreparedRequest(request.core, baseURL: baseURL))
    }

    /// A request that was checked, or sent, as Foundation describes one.
    public init(_ request: PreparedRequest) {
        self.init(url: request.url, timeoutInterval: request.idleTimeout.seconds)
        httpMethod = request.method.rawValue
        for field in request.headerFields { addValue(field.value, forHTTPHeaderField: field.name) }
        switch request.body {
        case .data(let data): httpBody = data
        case let body?: httpBodyStream = LoaderBody(body).makeStream()
        case nil: break
        }
    }
}

extension HTTPURLResponse {
    /// The head of an answer as Foundation describes one; nil when no transport has told its URL.
    ///
    /// Fields of one name are joined, `Set-Cookie` too, as URLSession does.
    public convenience init?(_ head: ResponseHead) {
        guard let url = head.url else { return nil }
        self.init(head, url)
    }

    /// The answer's head as Foundation describes one; its URL is that of the last request, when the transport tells none.
    public convenience init?<Value>(_ response: Response<Value>) {
        self.init(response.head, response.head.url ?? response.request.url)
    }

    private convenience init?(_ head: ResponseHead, _ url: URL) {
        var fields: [String: String] = [:]
        // As each was spelled first: a server may send thousands.
        var names: [String: String] = [:]
        for field in head.headerFields {
            let key = field.name.lowercased()
            let name = names[key] ?? field.name
            names[key] = name
            fields[name] = fields[name].map { $0 + ", " + field.value } ?? field.value
        }
        self.init(url: url, statusCode: head.statusCode, httpVersion: "HTTP/1.1", headerFields: fields)
    }
}
