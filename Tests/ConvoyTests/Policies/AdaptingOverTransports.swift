// Interceptors and cookies over real transports.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

extension ConformingTransport {
    /// A manager that uses the transport.
    func manager(
        _ limit: Int = 16, interceptors: [any RequestInterceptor] = [], cookies: CookieJar? = nil,
        configure: (inout RequestManager.Configuration) -> Void = { _ in }
    ) -> RequestManager {
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: limit, maxConcurrentPerHost: limit, transport: .custom(transport))
        (configuration.interceptors, configuration.cookies) = (interceptors, cookies)
        configure(&configuration)
        return RequestManager(configuration: configuration)
    }
}

extension RequestManager {
    /// The outcomes of these requests, in order.
    func results(of requests: [Request<Data>]) async -> [RequestOperation<Data>.Result] {
        await batch(requests).results
    }

    /// Waits until each of these operations waits for its interceptors, before or after an attempt.
    ///
    /// An operation that waits for its interceptors has no slot.
    func allAreIntercepted(
        _ operations: [AnyRequestOperation], sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let isIntercepted = { (operation: AnyRequestOperation) in
            let why = self.why(operation)
            return why.hasSuffix("waits for an interceptor") || why.hasPrefix("is deciding what follows")
        }
        await look { operations.allSatisfy(isIntercepted) }
        let others = operations.filter { !isIntercepted($0) }.prefix(3).map(why)
        #expect(others.isEmpty, sourceLocation: sourceLocation)
    }
}

extension TestServer {
    /// The values of a field, request by request, in the order of arrival; nil where it was missing.
    func received(_ name: String) -> [String?] { recordedRequests.map { $0.value(of: name) } }

    /// The requested paths, in the order of arrival.
    var paths: [String] { recordedRequests.map(\.path) }
}

extension Reply {
    init(_ answer: MadeAnswer, body: String = "") {
        self = .status(answer.status, headerFields: answer.fields.map { ($0.name, $0.value) }, body: body)
    }

    /// A 200 that sets cookies, each in a separate field.
    static func cookies(_ values: String..., body: String = "") -> Reply {
        .status(200, headerFields: values.map { ("Set-Cookie", $0) }, body: body)
    }
}
