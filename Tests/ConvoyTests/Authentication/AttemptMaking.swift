// Creates attempts for tests of interceptors, without an operation.
import Foundation

@testable import Convoy

extension PreparedRequest {
    static func made(
        _ url: String = "http://example.org/dir/index.html", method: HTTPMethod = .get, fields: HeaderFields = [:]
    ) throws -> PreparedRequest {
        var core = RequestCore(method: method, url: URL(string: url))
        core.headerFields = fields
        return try PreparedRequest(core, baseURL: nil)
    }

    var authorization: String? { headerFields["Authorization"] }
}

extension AttemptContext {
    /// - Parameter earlier: the status codes of the earlier attempts.
    static func made(_ request: PreparedRequest, hasLeftOrigin: Bool = false, earlier: [Int] = []) -> AttemptContext {
        let now = ContinuousClock.now
        let records = earlier.enumerated().map { index, status in
            AttemptRecord(
                number: index + 1, request: request, started: now, ended: now,
                response: ResponseHead(statusCode: status))
        }
        return AttemptContext(
            number: earlier.count + 1, originalRequest: request, hasLeftOrigin: hasLeftOrigin,
            earlierAttempts: records)
    }
}

extension AttemptEnd {
    static func made(_ request: PreparedRequest, status: Int, fields: HeaderFields = [:]) -> AttemptEnd {
        let head = ResponseHead(statusCode: status, headerFields: fields, url: request.url)
        return AttemptEnd(
            request: request, response: head,
            error: status < 400 ? nil : RequestError(.unacceptableStatus, "status \(status)", response: head))
    }
}

extension PasswordAuthenticator {
    /// The authenticator of the RFCs' user, with countable client nonces.
    static func mufasa(
        _ schemes: Schemes = [.basic, .digest], password: String = "Circle of Life", origins: [URL]? = nil
    ) throws -> PasswordAuthenticator {
        let numbers = Locked(0)
        return try PasswordAuthenticator(user: "Mufasa", password: password, schemes: schemes, origins: origins) {
            "c\(numbers.countUp())"
        }
    }

    /// The field of this user for Basic.
    static let basicField = "Basic TXVmYXNhOkNpcmNsZSBvZiBMaWZl"
}

/// The response of a simulated server.
struct MadeAnswer {
    var status: Int
    var fields: HeaderFields = [:]

    static let ok = MadeAnswer(status: 200)
    static func challenge(_ values: String...) -> MadeAnswer {
        MadeAnswer(status: 401, fields: HeaderFields(values.map { ("WWW-Authenticate", $0) }))
    }
}

/// Sends a request as an operation would: the interceptor adapts each of at most ten attempts, and decides after it.
///
/// - Returns: the `Authorization` fields that were sent, in order, and the last status.
func exchange(
    _ request: PreparedRequest, through interceptor: some RequestInterceptor,
    with server: (PreparedRequest) -> MadeAnswer
) async throws -> (sent: [String?], status: Int) {
    var sent: [String?] = []
    var statuses: [Int] = []
    while true {
        let context = AttemptContext.made(request, earlier: statuses)
        let adapted = try await interceptor.adapt(request, for: context)
        sent.append(adapted.authorization)
        let answer = server(adapted)
        let end = AttemptEnd.made(adapted, status: answer.status, fields: answer.fields)
        let decision = try await interceptor.decide(after: end, of: context)
        statuses.append(answer.status)
        guard case .retry = decision, statuses.count < 10 else { return (sent, answer.status) }
    }
}
