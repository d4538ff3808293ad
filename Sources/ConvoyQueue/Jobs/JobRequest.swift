// What a job sends: the part of a request that can be written down.
import Convoy
import Foundation

/// The request of a job: method, URL, header fields, body, and where a download goes.
///
/// Credentials are never stored. A request with a secret header field, with one whose name tells of a secret (`X-Api-Key`), or
/// with a user name or a password in its URL, is refused when it is added; an interceptor of the manager adds them each time it
/// is sent:
///
/// ```swift
/// let manager = RequestManager(
///     configuration: .init(interceptors: [BearerAuthenticator(…)]))
/// ```
///
/// What is code rather than data (decoders, policies, interceptors of the request's own) is not kept.
public struct JobRequest: Sendable, Hashable {
    /// Where the bytes of a body are.
    public enum Body: Sendable, Hashable {
        /// In memory; the store keeps them.
        case data(Data)
        /// In a file of the caller's, which is read when the job is sent and has to stay until it is done.
        case file(URL)
    }

    /// The request method.
    public var method: HTTPMethod
    /// The URL, absolute or relative to the manager's base URL.
    public var url: URL
    /// The header fields, none of them secret.
    public var headerFields: HeaderFields
    /// The body; nil for none.
    public var body: Body?
    /// The file a download is written to; nil: the body of the answer goes to the handler.
    ///
    /// A download that was interrupted, by a crash too, continues where it was.
    public var destination: URL?
    /// Whether a redirect (301, 302, 303) may turn the request into a GET without its body; false by default.
    ///
    /// Then the answer to that GET is the outcome. Else such a redirect is a failure: what was to be sent has reached nobody who
    /// would say so. One from `http:` to `https:` of the same host keeps method and body, unless it is a 303.
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

    /// Takes what can be kept of a request: its query, its JSON and its form included.
    ///
    /// - Parameters:
    ///   - request: with an absolute URL.
    ///   - destination: the file a download is written to.
    /// - Throws: `.invalidJob` for a request that cannot be sent, and for a body that is a stream, a sequence or a form in parts:
    ///   write it to a file, and send that.
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
                "\(prepared): a body that comes from a stream or is a form in parts cannot be kept; "
                    + "write it to a file and use body(fromFile:)")
        }
    }
}

extension JobRequest {
    /// Why it cannot be kept, or nil.
    var defect: String? {
        if let secret = headerFields.first(where: { $0.isSecret || Self.tellsOfSecret($0.name) })?.name {
            return "its header field \(secret) is a secret, and secrets are never stored: "
                + "have an interceptor of the manager add it when the request is sent (RequestManager.Configuration.interceptors)"
        }
        if url.absoluteString.utf8.contains(0x40), url.user != nil || url.password != nil {
            return "its URL has a user name or a password, and secrets are never stored: "
                + "have an interceptor of the manager, PasswordAuthenticator for example, add them when the request is sent"
        }
        if case .file(let file)? = body, !file.isFileURL { return "the body \(file) is not a file URL" }
        if let destination, !destination.isFileURL { return "the destination \(destination) is not a file URL" }
        return sendable(body: body).defect
    }

    /// Whether a header field of this name has a secret as its value: `X-Api-Key` or `X-Auth-Token`, for example.
    private static func tellsOfSecret(_ name: String) -> Bool {
        let bare = name.lowercased().filter { $0 != "-" && $0 != "_" }
        let words = [
            "apikey", "accesskey", "privatekey", "token", "secret", "password", "passwd", "credential", "authorization",
            "sessionid",
        ]
        return ["auth", "xauth"].contains(bare) || words.contains { bare.contains($0) }
    }

    /// The request as it is sent.
    func sendable(body: Body?) -> Request<Data> {
        var request = Request<Data>(method: method, url: url)
        for field in headerFields { request = request.addingHeader(field.name, field.value) }
        switch body {
        case nil: return request
        case .data(let data): return request.body(data, contentType: nil)
        case .file(let file): return request.body(fromFile: file, contentType: nil)
        }
    }
}

extension JobRequest {
    /// The host and the port that the request goes to, as ``ClaimRequest/rooms`` knows it; empty for a relative URL.
    public var host: String {
        guard let host = url.host()?.lowercased() else { return "" }
        return "\(host):\(url.port ?? (url.scheme?.lowercased() == "https" ? 443 : 80))"
    }
}

extension JobRequest: CustomStringConvertible {
    /// Method and URL, without credentials.
    public var description: String { sendable(body: nil).description }
}
