// Tests nonstandard status lines and fields that are accepted: the table of `WhatIsAccepted`.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct StatusLineFaultTests {
        private static func head(_ line: String) -> CurlHeaderParser.Outcome { .of([line + "\r\n", "\r\n"]) }

        @Test(arguments: [
            ("HTTP/1.1 200 OK", 200), ("HTTP/1.1  200 OK", 200), ("HTTP/1.1   404  Not Found", 404),
            ("HTTP/1.1 204", 204), ("HTTP/2 200 ", 200), ("http/1.1 200 OK", 200), ("Http/1.0 404 no", 404),
        ])
        func statusLineIsRead(line: String, status: Int) {
            #expect(Self.head(line) == .head(status))
        }

        /// libcurl reads a status line with a lower-case `http` as status 200.
        ///
        /// It would wait for a body, so Convoy rejects such a line if its status has no body.
        @Test(arguments: ["http/1.1 204 No Content", "http/1.1 304 Not Modified", "http/1.1 100 Continue"])
        func statusLineInOtherLettersNeedsABody(line: String) {
            #expect(Self.head(line) == .refused)
        }

        @Test(arguments: [
            "HTTP/1.1\t200 OK", "HTTP/1.1 200\tOK", " HTTP/1.1 200 OK", "HTTP/1.1200 OK", "HTTP /1.1 200 OK",
            "HTTP/1.1  ", "HTTP/1.1 20 0", "HTTP/1.1 +200 OK", "HTTP/1.2 200 OK",
        ])
        func otherLinesAreRefused(line: String) {
            #expect(Self.head(line) == .refused)
        }

        /// libcurl 7.88 accepts two blanks; 8.12 rejects them.
        @Test func twoSpacesAreAcceptedWhereLibcurlAcceptsThem() async throws {
            let server = try TestServer(always: .raw("HTTP/1.1  200 OK\r\nContent-Length: 5\r\n\r\nhello"))
            defer { server.shutDown() }
            let result = try await Sending(server.get()).result()
            #expect(result.code == nil || result.code == .badResponse, "\(result)")
        }

        @Test func otherLettersAreHTTP() async throws {
            let server = try TestServer(always: .raw("http/1.1 404 No\r\nContent-Length: 5\r\n\r\nhello"))
            defer { server.shutDown() }
            let response = try await Sending(server.get().acceptableStatusCodes(.any)).response()
            #expect(response.statusCode == 404)
            #expect(response.value == Data("hello".utf8))
        }
    }

    extension CurlHeaderParser {
        /// The result of parsing a header line by line.
        enum Outcome: Equatable {
            case head(Int)
            case refused
            case incomplete

            static func of(_ lines: [String]) -> Outcome {
                var parser = CurlHeaderParser(ConnectionOptions())
                for line in lines {
                    do {
                        let head = try Array(line.utf8).withUnsafeBytes { try parser.take($0) }
                        if let head { return .head(head.statusCode) }
                    } catch { return .refused }
                }
                return .incomplete
            }
        }
    }
#endif
