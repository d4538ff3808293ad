import Convoy
import Foundation

/// The request of a job: method, URL, header fields, body, and the file of a download.
///
/// Credentials are never stored. The queue rejects a request with a secret header field, with a field whose name
/// indicates a secret (`X-Api-Key`), or with a user name or password in its URL. An interceptor of the manager adds
/// credentials before each attempt:
///
/// ```swift
/// let manager = RequestManager(
///     configuration: .init(interceptors: [BearerAuthenticator(…)]))
/// ```
///
/// Code such as decoders, policies and the request's own interceptors is not stored.
public struct JobRequest: Sendable, Hashable {
    /// Where the bytes of a body are stored.
    public enum Body: Sendable, Hashable {
        /// The body is in memory, and the store saves its bytes.
        case data(Data)
        /// The body is the caller's file, which is read when the job is sent; keep it until the job is done.
        case file(URL)

        package var data: Data? { if case .data(let data) = self { data } else { nil } }
        package var file: URL? { if case .file(let file) = self { file } else { nil } }
    }

    /// The request method.
    public var method: HTTPMethod
    /// The URL, absolute or relative to the manager's base URL.
    public var url: URL
    /// The header fields, none of them secret.
    public var headerFields: HeaderFields
    /// The body; nil for none.
    public var body: Body?
    /// The file to which the response body is downloaded; nil, the default, passes the body to the handler.
    ///
    /// An interrupted download is resumed, also after a crash.
    public var destination: URL?
    /// Whether a redirect (301, 302, 303) may turn the request into a GET without its body; false by default.
    ///
    /// If true, the response to that GET is the outcome. If false, such a redirect is a failure, because no server has
    /// confirmed the original request. One redirect is followed even then: a 301 or 302 from `http:` to `https:` on the
    /// same host keeps method and body.
    public var followsRedirectsAsGet = false

    /// Makes a request.
    public init(
        method: HTTPMethod = .get, url: URL, headerFields: HeaderFields = [:], body: Body? = nil,
        destination: URL? = nil
    ) {
        self.method = method
        self.url = url
        self.headerFields = headerFields
        self.body = body
        self.destination = destination
    }

    /// Makes a job's request from the parts of a request that can be stored, including query, JSON and form.
    ///
    /// - Parameters:
    ///   - request: the request, with an absolute URL.
    ///   - destination: the file of a download.
    /// - Throws: `.invalidJob` for a request that cannot be sent, and for a body from a stream, a sequence or a
    ///   multipart form. Write such a body to a file and send the file.
    public init(_ request: Request<Data>, savedTo destination: URL? = nil) throws(QueueError) {
        let prepared: PreparedRequest
        do { prepared = try PreparedRequest(checking: request) } catch { throw QueueError(.invalidJob, error.message) }
        self.init(
            method: prepared.method, url: prepared.url, headerFields: prepared.headerFields, destination: destination)
        switch prepared.body {
        case nil: break
        case .data(let data): body = .data(data)
        case .file(let file, _): body = .file(file)
        case .joined, .stream:
            throw QueueError(
                .invalidJob,
                "\(prepared): a body from a stream or a multipart form cannot be stored; "
                    + "write it to a file and use body(fromFile:)")
        }
    }
}

extension JobRequest: CustomStringConvertible {
    /// Method and URL, without credentials.
    public var description: String { sendable(body: nil).description }

    /// The host and port of the request, as in ``ClaimRequest/rooms``; empty for a relative URL.
    public var host: String {
        guard let host = url.host()?.lowercased() else { return "" }
        return "\(host):\(url.port ?? (url.scheme?.lowercased() == "https" ? 443 : 80))"
    }

    var losesByRedirects: Bool { method != .get && method != .head }

    var defect: String? {
        if let secret = headerFields.first(where: { $0.isSecret || Self.tellsOfSecret($0.name) })?.name {
            return "its header field \(secret) is a secret, and secrets are never stored: "
                + "let an interceptor of the manager add it when the request is sent (RequestManager.Configuration.interceptors)"
        }
        if url.absoluteString.utf8.contains(0x40), url.user != nil || url.password != nil {
            return "its URL has a user name or a password, and secrets are never stored: "
                + "let an interceptor of the manager, such as PasswordAuthenticator, add them when the request is sent"
        }
        if case .file(let file)? = body, !file.isFileURL { return "the body \(file) is not a file URL" }
        if let destination, !destination.isFileURL { return "the destination \(destination) is not a file URL" }
        return sendable(body: body).defect
    }

    private static func tellsOfSecret(_ name: String) -> Bool {
        let bare = name.lowercased().filter { $0 != "-" && $0 != "_" }
        let words = [
            "apikey", "accesskey", "privatekey", "token", "secret", "password", "passwd", "credential", "authorization",
            "sessionid",
        ]
        return ["auth", "xauth"].contains(bare) || words.contains { bare.contains($0) }
    }

    func sendable(body: Body?) -> Request<Data> {
        var request = Request<Data>(method: method, url: url).keepingUnknownCodings()
        for field in headerFields { request = request.addingHeader(field.name, field.value) }
        switch body {
        case nil: return request
        case .data(let data): return request.body(data, contentType: nil)
        case .file(let file): return request.body(fromFile: file, contentType: nil)
        }
    }
}
