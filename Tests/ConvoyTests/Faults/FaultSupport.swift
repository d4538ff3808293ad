// Types that the fault tests share.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    /// One form of a fault, with a name for the test's report.
    struct FaultVariant: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let reply: Reply

        init(_ name: String, _ reply: Reply) {
            testDescription = name
            self.reply = reply
        }

        /// Raw bytes, followed by the end of the connection unless stated otherwise.
        init(_ name: String, raw: String, closes: Bool = true) {
            self.init(name, .raw(raw, closes: closes))
        }

        /// A body in raw chunked coding.
        init(_ name: String, chunked body: String, closes: Bool = true) {
            self.init(
                name, raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body, closes: closes)
        }

        /// A 200 with these header lines, and a body.
        init(_ name: String, fields: [String], body: String = "", closes: Bool = true) {
            let head = (["HTTP/1.1 200 OK"] + fields).joined(separator: "\r\n")
            self.init(name, raw: head + "\r\n\r\n" + body, closes: closes)
        }
    }

    extension TestServer {
        /// A server that sends one reply to every request.
        convenience init(always reply: Reply, at moment: HandlerMoment = .body) throws {
            try self.init()
            respond(at: moment) { _ in reply }
        }

        func get(_ target: String = "/") -> Request<Data> { .get(url(target)) }
    }

    extension CurlTransport {
        private static let count = Locked(0)

        /// Creates a transport with its own connections.
        ///
        /// Transports with equal options share connections, so each call uses a slightly longer connect timeout.
        static func alone(_ change: (inout ConnectionOptions) -> Void = { _ in }) throws -> CurlTransport {
            var options = ConnectionOptions()
            change(&options)
            options.connectTimeout += .nanoseconds(
                count.withLock { count in
                    count += 1
                    return count
                })
            return try CurlTransport(options)
        }
    }

    extension Sending {
        /// Starts a request over libcurl, without a manager.
        init(
            _ request: Request<Output>, _ transport: CurlTransport = .shared,
            prepare: (RequestOperation<Output>) -> Void = { _ in }
        ) {
            self.init(request, over: transport, prepare: prepare)
        }
    }

    /// Sends a GET to a server that always sends the same response.
    enum Fault {
        /// The response to the GET.
        ///
        /// Throws the error of a failure.
        static func response(
            to reply: Reply, over transport: CurlTransport = .shared,
            sourceLocation: SourceLocation = #_sourceLocation,
            _ change: (Request<Data>) -> Request<Data> = { $0 }
        ) async throws -> Response<Data> {
            let server = try TestServer(always: reply)
            defer { server.shutDown() }
            return try await Sending(change(server.get()), transport).response(sourceLocation: sourceLocation)
        }

        /// The error of the GET, after common checks.
        ///
        /// The error's text is one line, the error names the request, and the client has closed the connection.
        ///
        /// - Parameter closes: false if the connection is still usable, so its end is not checked.
        static func error<Output>(
            of reply: Reply, over transport: CurlTransport = .shared, closes: Bool = true,
            sourceLocation: SourceLocation = #_sourceLocation,
            _ change: (Request<Data>) -> Request<Output>
        ) async throws -> RequestError {
            let server = try TestServer(always: reply)
            defer { server.shutDown() }
            let sending = Sending(change(server.get()), transport)
            let error = try await sending.error(sourceLocation: sourceLocation)
            #expect(error.description.isOneLine, sourceLocation: sourceLocation)
            #expect(error.request == "GET \(server.url())", sourceLocation: sourceLocation)
            if closes { try await server.connectionsClosed() }
            #expect(sending.outcomes.count == 1, sourceLocation: sourceLocation)
            return error
        }

        /// Expects that a GET into memory fails with one of these codes.
        ///
        /// - Parameter status: the status of the head before the fault; nil without a head.
        static func expect(
            _ codes: RequestError.Code..., of reply: Reply, status: Int?, closes: Bool = true,
            sourceLocation: SourceLocation = #_sourceLocation
        ) async throws {
            let error = try await error(of: reply, closes: closes, sourceLocation: sourceLocation) {
                $0.acceptableStatusCodes(.any)
            }
            #expect(codes.contains(error.code), "\(error)", sourceLocation: sourceLocation)
            #expect(error.response?.statusCode == status, sourceLocation: sourceLocation)
            #expect(error.isRetryable == error.code.facts.contains(.retryable), sourceLocation: sourceLocation)
        }

        /// Expects that the next request receives its own response, without bytes left over from the first response.
        ///
        /// - Parameter method: the method of the first request, whose response is accepted with any status.
        ///
        /// - Returns: the first response, and the connection number of each request.
        static func next(
            after reply: Reply, method: HTTPMethod = .get, sourceLocation: SourceLocation = #_sourceLocation,
            between: (TestServer) async throws -> Void = { _ in }
        ) async throws -> (first: Response<Data>, connections: [Int]) {
            let server = try TestServer()
            defer { server.shutDown() }
            server.enqueue(reply)
            server.respond { .status(200, body: "right \($0.path)") }
            let transport = try CurlTransport.alone()
            let request = Request<Data>(method: method, url: server.url("/first")).acceptableStatusCodes(.any)
            let first = try await Sending(request, transport).response(sourceLocation: sourceLocation)
            try await between(server)
            for target in ["/second", "/third"] {
                let next = try await Sending(server.get(target), transport).response(sourceLocation: sourceLocation)
                #expect(next.value == Data("right \(target)".utf8), sourceLocation: sourceLocation)
                #expect(next.statusCode == 200, sourceLocation: sourceLocation)
            }
            return (first, server.recordedRequests.map(\.connectionNumber))
        }
    }
#endif
