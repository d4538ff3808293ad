// Conversion from and to Foundation's requests.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension Request where Output: Decodable {
    /// Makes a request from a `URLRequest`: its method, URL, header fields, body and timeout.
    ///
    /// The output is decoded as by `init(method:url:)`. An `httpBodyStream` can be read only once, so a redirect or a
    /// retry cannot send it again. A `timeoutInterval` other than Foundation's 60 seconds becomes the
    /// ``idleTimeout(_:)``. Settings for URLSession (cache policy, cookies, network types) are ignored. Without a URL,
    /// the request has a ``defect``.
    ///
    /// In a module isolated to the main actor, declare the output `nonisolated struct User: Decodable, Sendable`.
    public init(_ request: URLRequest) {
        self.init(method: HTTPMethod(rawValue: request.httpMethod ?? "GET"), url: request.urlText)
        core.take(request)
    }
}

extension Request where Output == Data {
    /// Makes a request from a `URLRequest`, for the raw body of its response.
    public init(_ request: URLRequest) {
        self.init(method: HTTPMethod(rawValue: request.httpMethod ?? "GET"), url: request.urlText)
        core.take(request)
    }
}

extension Request where Output == Void {
    /// Makes a request from a `URLRequest`; the body of the response is discarded.
    public init(_ request: URLRequest) {
        self.init(method: HTTPMethod(rawValue: request.httpMethod ?? "GET"), url: request.urlText)
        core.take(request)
    }
}

extension URLRequest {
    /// The URL; a text that is no URL if there is none.
    fileprivate var urlText: String { url?.absoluteString ?? "http://\\" }

    /// Makes a `URLRequest` from a request, checked as by a manager: URL, method, header fields, body and timeout.
    ///
    /// The result lacks the additions of a manager (defaults, cookies, interceptors). A body that is not in memory
    /// becomes a stream that can be read once.
    ///
    /// - Throws: `.invalidRequest` for a request that cannot be sent, `.bodyUnreadable` for a file that cannot be read.
    public init<Output>(_ request: Request<Output>, relativeTo baseURL: URL? = nil) throws(RequestError) {
        self.init(try PreparedRequest(request.core, baseURL: baseURL))
    }

    /// Makes a `URLRequest` from a request that was checked or sent.
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

extension RequestCore {
    fileprivate mutating func take(_ request: URLRequest) {
        // The fields are sorted by name, because the order of a dictionary is not stable.
        for (name, value) in (request.allHTTPHeaderFields ?? [:]).sorted(by: { $0.key < $1.key }) {
            headerFields.add(name, value)
        }
        if let data = request.httpBody {
            self.body = .data(data)
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

private struct GivenStream: @unchecked Sendable {
    // @unchecked: `InputStream` is not Sendable. The body of this stream is read once, and only on one queue.
    let stream: InputStream
}

extension HTTPURLResponse {
    /// Makes an `HTTPURLResponse` from the head of a response, with fields of one name joined, including `Set-Cookie`,
    /// as in URLSession; nil when the transport did not report the URL.
    public convenience init?(_ head: ResponseHead) {
        guard let url = head.url else { return nil }
        self.init(head, url)
    }

    /// Makes an `HTTPURLResponse` from a response; if the transport reports no URL, it has that of the last request.
    public convenience init?<Value>(_ response: Response<Value>) {
        self.init(response.head, response.head.url ?? response.request.url)
    }

    private convenience init?(_ head: ResponseHead, _ url: URL) {
        var fields: [String: String] = [:]
        // Maps names in lower case to their first spelling. A search of `fields` would be slow for thousands of fields.
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
