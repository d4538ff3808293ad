import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

extension PreparedRequest {
    /// A request as it would be sent, without an operation.
    static func test(
        _ method: HTTPMethod = .get, _ url: String = "http://a/b/c/d;p?q", fields: HeaderFields = [:],
        body: String? = nil
    ) throws -> PreparedRequest {
        var request = try PreparedRequest(Request<Data>.get(url).core, baseURL: nil)
        request.method = method
        request.headerFields = fields
        request.body = body.map { .data(Data($0.utf8)) }
        return request
    }
}

extension ResponseHead {
    /// The head of a response that redirects.
    static func redirect(_ statusCode: Int = 302, to location: String) -> ResponseHead {
        ResponseHead(statusCode: statusCode, headerFields: ["Location": location])
    }
}

extension RedirectStep {
    /// The request that follows the redirect; nil if there is none.
    var request: PreparedRequest? { if case .follow(let request, _) = self { request } else { nil } }
    var leavesOrigin: Bool? { if case .follow(_, let leavesOrigin) = self { leavesOrigin } else { nil } }
    var error: RequestError? { if case .fail(let error) = self { error } else { nil } }
    var isDelivery: Bool { if case .stands = self { true } else { false } }
}

extension RedirectPolicy {
    /// The step after the first redirect of a request.
    func first(_ head: ResponseHead, of request: PreparedRequest) -> RedirectStep {
        next(after: head, of: request, earlier: [])
    }

    /// Follows redirects like an operation, until a response does not redirect.
    func run(
        _ request: PreparedRequest, answer: (PreparedRequest) -> ResponseHead
    ) -> (sent: [PreparedRequest], last: RedirectStep) {
        var (sent, records) = ([request], [AttemptRecord]())
        while sent.count < 1_000 {
            let current = sent[sent.count - 1]
            let head = answer(current)
            let step = next(after: head, of: current, earlier: records)
            guard let following = step.request else { return (sent, step) }
            records.append(.redirect(current, to: following.url, statusCode: head.statusCode, number: sent.count))
            sent.append(following)
        }
        return (sent, .stands)
    }
}

extension AttemptRecord {
    /// The record of an attempt that was redirected.
    static func redirect(
        _ request: PreparedRequest, to url: URL, statusCode: Int = 302, location: String? = nil,
        number: Int = 1
    ) -> AttemptRecord {
        AttemptRecord(
            number: number, request: request, started: .now, ended: .now,
            response: .redirect(statusCode, to: location ?? url.absoluteString), next: .redirect(to: url))
    }
}
