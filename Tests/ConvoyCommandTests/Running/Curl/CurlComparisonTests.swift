import Convoy
import ConvoyTesting
import Foundation
import Testing

/// Compares the effect of options that curl also has with their effect in curl.
@Suite(.enabled(if: ConvoyProcess.curl != nil, "curl is not installed"))
final class CurlComparisonTests: CommandTests {
    override init() throws {
        try super.init()
        for name in ["ours", "curls"] { _ = try directory.makeDirectory(name) }
        server.respond { _ in .resource(Data("0123456789".utf8), etag: "\"v1\"", headerFields: [("X-A", "b")]) }
    }

    /// Runs both programs with the same arguments.
    ///
    /// Each program runs in its own directory, with `variables` and without other variables for proxies.
    private func both(
        _ arguments: [String], curls curlArguments: [String]? = nil, variables: [String: String?] = [:]
    ) async throws -> (ours: ConvoyProcess.Ending, curls: ConvoyProcess.Ending) {
        let names = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"]
        let variables = Dictionary(names.map { ($0, nil) }) { $1 }.merging(variables) { $1 }
        let first = ["--no-config", "--retries=0"] + arguments
        let second = ["-q", "-sS"] + (curlArguments ?? arguments)
        return (
            try await ConvoyProcess(program: nil, first, in: directory.file("ours"), variables: variables).ended(),
            try await ConvoyProcess(
                program: ConvoyProcess.curl, second, in: directory.file("curls"), variables: variables
            )
            .ended()
        )
    }

    @Test func compressedBodiesAreTheSame() async throws {
        let coded = try #require(Data(base64Encoded: "H4sIAAAAAAACA8tIzcnJ11FIzs8tKEotLk5NAQASfhl4EQAAAA=="))
        server.respond { request in
            request.value(of: "Accept-Encoding")?.contains("gzip") == true
                ? .status(200, headerFields: [("Content-Encoding", "gzip")], body: coded) : .status(200, body: "plain")
        }
        for (arguments, body) in [(["--compressed"], "hello, compressed"), ([], "plain")] {
            let endings = try await both(arguments + ["-o", "page", url("/page")])
            #expect(endings.ours.status == 0 && endings.curls.status == 0)
            #expect(try content("ours/page") == body)
            #expect(try content("curls/page") == body)
        }
    }

    /// Without `Accept-Encoding` the server may choose a coding, whose bytes are stored.
    @Test func withoutAcceptEncodingTheSameBytesAreStored() async throws {
        server.respond { _ in .status(200, headerFields: [("Content-Encoding", "gzip")], body: "no gzip") }
        let endings = try await both(["-H", "Accept-Encoding:", "-o", "page", url("/page")])
        #expect(endings.ours.status == 0 && endings.curls.status == 0)
        #expect(try content("ours/page") == "no gzip")
        #expect(try content("curls/page") == "no gzip")
        for _ in 1...2 { #expect(try await server.takeRequest().value(of: "Accept-Encoding") == nil) }
    }

    @Test func limitsEndTheSame() async throws {
        for (limit, succeeds) in [("10", true), ("9", false)] {
            let rest = [limit, "-o", "page", url("/page")]
            let endings = try await both(["--max-size"] + rest, curls: ["--max-filesize"] + rest)
            #expect((endings.ours.status == 0) == succeeds && (endings.curls.status == 0) == succeeds)
        }
        server.respond { _ in .status(200, body: "x").stalling() }
        let late = try await both(["-m", "0.3", "-o", "late", url("/page")])
        #expect(late.ours.status != 0 && late.curls.status != 0)
        #expect(late.ours.errors.contains("the attempt timeout has passed"), "\(late.ours.errors)")
        // The listener accepts connections and sends nothing, so that no TLS handshake ends.
        let silent = try LoopbackPort.silent()
        let arguments = ["--connect-timeout", "0.3", "-o", "silent", "https://127.0.0.1:\(silent.port)/"]
        let unconnected = try await both(arguments)
        #expect(unconnected.ours.status != 0 && unconnected.curls.status != 0)
        #expect(unconnected.ours.errors.contains("connect timeout"), "\(unconnected.ours.errors)")
    }

    @Test func aFileThatIsNotNewerIsNotFetched() async throws {
        server.respond { request in
            request.value(of: "If-Modified-Since") == nil ? .status(200, body: "new") : .status(304)
        }
        let date = "Sat, 31 Jan 2026 12:00:00 GMT"
        let endings = try await both(["-z", date, "-o", "page", url("/page")])
        #expect(endings.ours.status == 0, "\(endings.ours.errors)")
        #expect(endings.curls.status == 0)
        #expect(try directory.names(in: "ours") == [])
        #expect(try directory.names(in: "curls") == [])
        #expect(endings.ours.output.hasPrefix("skipped page  not newer than \(date)\n"), "\(endings.ours.output)")
        #expect(endings.ours.errors == "")
        for _ in 0..<2 { #expect(try await server.takeRequest().value(of: "If-Modified-Since") == date) }
        let told = try await both(
            ["-z", date, "--json", "--save-failed", "failed", url("/page")], curls: [url("/page")])
        let skipped = told.ours.events(named: "skipped")
        #expect(skipped.count == 1 && skipped.first?["file"] == nil, "\(told.ours.output)")
        #expect(told.ours.events(named: "summary").first?["skipped"] as? Int == 1)
        #expect(try content("ours/failed") == "")
    }

    @Test func jarsOfCookiesAreTheSame() async throws {
        let formatter = DateFormatter()
        (formatter.locale, formatter.timeZone) = (Locale(identifier: "en_US_POSIX"), TimeZone(secondsFromGMT: 0))
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        // The cookie expires after about 12 days, because some programs shorten a lifetime of more than 400 days.
        let date = formatter.string(from: .now.addingTimeInterval(1_000_000))
        server.respond { request in
            request.path == "/moved"
                ? Reply.status(
                    302,
                    headerFields: [
                        ("Location", "/page"), ("Set-Cookie", "a=1; Path=/; Expires=\(date)"),
                    ])
                : .status(
                    200, headerFields: [("Set-Cookie", "b=2; HttpOnly"), ("Set-Cookie", "c=; Path=/x")], body: "in")
        }
        let endings = try await both(
            ["--cookie-jar", "jar", "-o", "page", url("/moved")],
            curls: ["-L", "--cookie-jar", "jar", "-o", "page", url("/moved")])
        #expect(endings.ours.status == 0 && endings.curls.status == 0)
        let jars = try ["ours/jar", "curls/jar"].map { try content($0).split(separator: "\n") }
            .map { lines in lines.filter { !$0.hasPrefix("# ") }.sorted() }
        #expect(jars[0].count == 3 && jars[0] == jars[1])
    }

    @Test func proxiesOfTheEnvironmentAreAskedTheSame() async throws {
        for name in ["http_proxy", "all_proxy"] {
            let variables: [String: String?] = [name: "http://127.0.0.1:\(server.port)"]
            let endings = try await both(["-o", "a", "http://example.invalid/a?b"], variables: variables)
            #expect(endings.ours.status == 0, "\(endings.ours.errors)")
            #expect(endings.curls.status == 0)
            for _ in 0..<2 { #expect(try await server.takeRequest().target == "http://example.invalid/a?b") }
            let past = try await both(
                ["-o", "a", url("/past")],
                variables: [name: "http://127.0.0.1:1", "no_proxy": "127.0.0.1"])
            #expect(past.ours.status == 0 && past.curls.status == 0)
            for _ in 0..<2 { #expect(try await server.takeRequest().target == "/past") }
        }
    }

    #if os(Linux)
        @Test(arguments: [
            ("socks5h", "http://name.invalid/a", "name.invalid"), ("socks5", "http://127.0.0.1:9/a", "127.0.0.1"),
        ])
        func proxiesOfSOCKSAreAskedTheSame(scheme: String, url: String, host: String) async throws {
            let proxy = try SOCKSServer()
            let endings = try await both(["-x", "\(scheme)://127.0.0.1:\(proxy.port)", "-o", "a", url])
            #expect(endings.ours.status == 0, "\(endings.ours.errors)")
            #expect(endings.curls.status == 0)
            #expect(proxy.requests == [String](repeating: "\(host) GET /a HTTP/1.1", count: 2))
            #expect(try content("ours/a") == "hello")
        }
    #endif
}

#if os(Linux)
    /// A SOCKS5 proxy on 127.0.0.1 that responds to HTTP requests itself, in place of every host.
    final class SOCKSServer: Sendable {
        private let descriptor: Int32
        private let asked = Locked<[String]>([])
        let port: Int

        /// The requested host of each connection, and the first line of the data sent to it.
        var requests: [String] { asked.withLock { $0 } }

        init() throws {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            self.descriptor = descriptor
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isListening = withUnsafeMutableBytes(of: &address) { bytes in
                bytes.withMemoryRebound(to: sockaddr.self) { addresses in
                    bind(descriptor, addresses.baseAddress, length) == 0 && listen(descriptor, 8) == 0
                        && getsockname(descriptor, addresses.baseAddress, &length) == 0
                }
            }
            try #require(isListening, "no loopback address")
            port = Int(UInt16(bigEndian: address.sin_port))
            Thread { [asked] in
                while case let client = accept(descriptor, nil, nil), client >= 0 {
                    var bound = timeval(tv_sec: 30, tv_usec: 0)
                    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &bound, socklen_t(MemoryLayout<timeval>.size))
                    if let request = Self.serve(client) { asked.withLock { $0.append(request) } }
                    close(client)
                }
                close(descriptor)
            }.start()
        }

        deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }

        private static func serve(_ client: Int32) -> String? {
            func read(_ count: Int) -> [UInt8]? {
                var bytes = [UInt8](repeating: 0, count: count)
                return recv(client, &bytes, count, Int32(MSG_WAITALL)) == count ? bytes : nil
            }
            func write(_ bytes: [UInt8]) { _ = send(client, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }
            guard let hello = read(2), read(Int(hello[1])) != nil else { return nil }
            write([5, 0])
            guard let request = read(4) else { return nil }
            let isName = request[3] == 3
            guard let length = isName ? read(1).map({ Int($0[0]) }) : 4, let host = read(length), read(2) != nil else {
                return nil
            }
            write([5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
            var head: [UInt8] = []
            while !head.suffix(4).elementsEqual([13, 10, 13, 10]), let byte = read(1) { head += byte }
            write(Array("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello".utf8))
            let name = isName ? String(decoding: host, as: UTF8.self) : host.map { "\($0)" }.joined(separator: ".")
            return name + " " + String(decoding: head.prefix { $0 != 13 }, as: UTF8.self)
        }
    }
#endif
