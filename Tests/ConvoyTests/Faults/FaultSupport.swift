// What every file of the fault suite uses. The numbers of the rows are those of the project's table of faults.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    /// One way in which a fault of the table shows, with a name for the test's report.
    struct FaultVariant: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let reply: Reply

        init(_ name: String, _ reply: Reply) {
            testDescription = name
            self.reply = reply
        }

        /// Bytes on the wire and then, unless told otherwise, the end of the connection.
        init(_ name: String, raw: String, closes: Bool = true) {
            self.init(name, .raw(raw, closes: closes))
        }

        /// A body in chunked coding, as it is on the wire.
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
        /// A server that answers every request in one way.
        convenience init(always reply: Reply, at moment: HandlerMoment = .body) throws {
            try self.init()
            respond(at: moment) { _ in reply }
        }

        func get(_ target: String = "/") -> Request<Data> { .get(url(target)) }
    }

    extension CurlTransport {
        private static let count = Locked(0)

        /// A transport that shares its connections with no other: those with equal options do.
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

    /// Sends a GET to a server that answers in one way only.
    enum Fault {
        /// The response; a failure is thrown.
        static func response(
            to reply: Reply, over transport: CurlTransport = .shared,
            sourceLocation: SourceLocation = #_sourceLocation,
            _ change: (Request<Data>) -> Request<Data> = { $0 }
        ) async throws -> Response<Data> {
            let server = try TestServer(always: reply)
            defer { server.shutDown() }
            return try await Sending(change(server.get()), transport).response(sourceLocation: sourceLocation)
        }

        /// The error, after what holds for each: it is one line, it names the request, and the connection is not kept.
        ///
        /// - Parameter closes: false where nothing is wrong with the connection.
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

        /// A GET into memory ends with one of these codes.
        ///
        /// - Parameter status: of the head that came before the fault; nil when none did, or none that counts.
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

        /// After this answer a request over the same transport gets its own, whatever is left over of this one.
        ///
        /// - Parameter method: of the first request; the answer is accepted whatever its status.
        /// - Returns: the first answer, and the number of the connection each request came on.
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
