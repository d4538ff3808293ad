import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(5))) struct SegmentedDownloadTests {
    private let directory: TemporaryDirectory
    private var target: URL { directory.file("target") }
    private static let content = FileVersion.seeded(7, byteCount: 5_000_000)
    private static let digest = FileDigest.ofBytes(content)

    init() throws { directory = try TemporaryDirectory() }

    private func expectTarget(
        _ content: Data = Self.content, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(try directory.entries == ["target"], sourceLocation: sourceLocation)
        #expect(try Data(contentsOf: target) == content, sourceLocation: sourceLocation)
    }

    private func ranges(_ server: StubServer) -> [String] {
        server.exchanges.events.map { $0.request.headerFields["Range"] ?? "whole" }
    }

    private func error(of download: SegmentedDownload) async -> RequestError? {
        do throws(RequestError) { _ = try await download.file() } catch { return error }
        return nil
    }

    private func download(
        _ request: Request<Data> = .stub("file"), from server: StubServer, limit: Int = 16, segments: Int = 2,
        mirrors: [URL] = [], verifying digest: FileDigest? = nil
    ) -> SegmentedDownload {
        server.manager(limit).downloadInSegments(
            request, to: target, segments: segments, mirrors: mirrors, verifying: digest)
    }

    private static var complete: StubServer { StubServer { FileVersion(content).answer($0) } }

    private static func limited(to byteCount: Int) -> StubServer {
        StubServer { exchange in
            let (start, end) = exchange.request.headerFields["Range"].flatMap(FileVersion.ends) ?? (0, nil)
            let last = min(end ?? .max, start + byteCount - 1, content.count - 1)
            var version = FileVersion(content)
            version.headerFields["Content-Range"] = "bytes \(start)-\(last)/\(content.count)"
            version.send(exchange, 206, version.headerFields, content[start...last])
        }
    }

    /// A server that sends the first byte, but only a part of each segment.
    private static func partial(
        _ byteCount: Int, thenFailing error: RequestError? = nil, isLeftOpen: Bool = false
    ) -> StubServer {
        StubServer { exchange in
            let isProbe = exchange.request.headerFields["Range"] == "bytes=0-0"
            FileVersion(content).answer(
                exchange, sending: isProbe ? .max : byteCount, thenFailing: isProbe ? nil : error,
                isLeftOpen: isLeftOpen && !isProbe)
        }
    }

    private var mirror: URL {
        get throws { try #require(URL(string: "http://b/file")) }
    }

    @Test func eachSegmentIsAskedForOnce() async throws {
        let server = Self.complete
        let download = download(from: server, segments: 4, verifying: Self.digest)
        #expect(try await download.file() == target)
        #expect(
            ranges(server).sorted() == [
                "bytes=0-0", "bytes=0-1249999", "bytes=1250000-2499999", "bytes=2500000-3749999",
                "bytes=3750000-4999999",
            ])
        #expect(server.exchanges.events.dropFirst().allSatisfy { $0.request.headerFields["If-Range"] == "\"v1\"" })
        #expect(download.progress.download.completedBytes == 5_000_000)
        #expect(download.operations.count == 5)
        try expectTarget()
    }

    /// `cancelAll()` also has an effect between two operations, when no operation is running.
    @Test func cancellingAllOfAManagerEndsIt() async throws {
        let manager = Self.complete.manager()
        let download = manager.downloadInSegments(.stub("file"), to: target)
        manager.cancelAll()
        #expect(await error(of: download)?.code == .cancelled)
        #expect(try directory.entries.contains("target") == false)
        // The cancellation does not affect later downloads.
        _ = try await manager.downloadInSegments(.stub("file"), to: target).file()
        try expectTarget()
    }

    @Test(arguments: [
        "small", "no ranges", "weak", "decoded", "no Content-Range", "other range", "400", "403", "405", "416", "501",
    ])
    func aFileThatCannotBeDividedIsFetchedAtOnce(kind: String) async throws {
        let content = kind == "small" ? Self.content.prefix(2_000_000) : Self.content
        let server = StubServer { exchange in
            switch kind {
            case "no ranges": FileVersion(content).send(exchange, 200, ["ETag": "\"v1\""], content)
            case "weak": FileVersion(content, etag: "W/\"v1\"").answer(exchange)
            case "no Content-Range" where exchange.request.headerFields["Range"] != nil:
                FileVersion(content).send(exchange, 206, ["ETag": "\"v1\""], content.prefix(1))
            case "other range" where exchange.request.headerFields["Range"] != nil:
                FileVersion(content).send(
                    exchange, 206, ["ETag": "\"v1\"", "Content-Range": "bytes 0-99/\(content.count)"],
                    content.prefix(100))
            default:
                guard let status = Int(kind), exchange.request.headerFields["Range"] != nil else {
                    return FileVersion(content).answer(exchange)
                }
                exchange.answer(status)
            }
        }
        let request = kind == "decoded" ? Request.stub("file").decodingFile() : .stub("file")
        _ = try await download(request, from: server, segments: 4).file()
        #expect(ranges(server) == (kind == "decoded" ? [] : ["bytes=0-0"]) + ["whole"])
        try expectTarget(content)
    }

    /// The part of a segmented file is one byte longer than the file, so a file of the largest length has no
    /// segments.
    @Test func theLargestLengthIsFetchedAtOnce() async throws {
        let part = Self.content.prefix(1_000)
        let key = try PreparedRequest(Request.stub("file").core, baseURL: nil).url.downloadKey
        let record = ResumeRecord(key: key, validator: .entityTag("\"v1\""), totalBytes: .max, boot: Boot.name)
        try part.write(to: directory.file(".target.convoy-part"))
        try SidecarFile(path: directory.file(".target.convoy-resume").path).write(record, synchronized: false)
        let version = FileVersion(Self.content)
        let server = StubServer { exchange in
            guard exchange.request.headerFields["Range"] == "bytes=0-0" else {
                return version.send(exchange, 200, version.headerFields, Self.content)
            }
            var fields = version.headerFields
            fields["Content-Range"] = "bytes 0-0/\(Int64.max)"
            version.send(exchange, 206, fields, Self.content.prefix(1))
        }
        _ = try await download(from: server, segments: 4).file()
        #expect(ranges(server) == ["bytes=0-0", "bytes=1000-"])
        try expectTarget()
    }

    /// A server may send less than was requested (RFC 9110, section 15.3.7).
    @Test func aServerThatLimitsRangesIsAskedForTheRest() async throws {
        let server = Self.limited(to: 1_000_000)
        #expect(try await download(from: server, verifying: Self.digest).file() == target)
        #expect(
            ranges(server).sorted() == [
                "bytes=0-0", "bytes=0-2499999", "bytes=1000000-2499999", "bytes=2000000-2499999",
                "bytes=2500000-4999999", "bytes=3500000-4999999", "bytes=4500000-4999999",
            ])
        try expectTarget()
    }

    /// A server that sends a few bytes for each request would cause very many of them.
    @Test func aServerThatSendsTooFewBytesFails() async throws {
        let server = Self.limited(to: 10_000)
        #expect(await error(of: download(from: server, segments: 1))?.code == .connectionLost)
        #expect(server.exchanges.count == 2)
    }

    @Test(arguments: [["accept-encoding"], []] as [Set<String>])
    func anOmittedAcceptEncodingIsNotSent(omitted: Set<String>) async throws {
        let server = Self.complete
        _ = try await download(.stub("file").omitting(transportFields: omitted), from: server).file()
        let sent = server.exchanges.events.map { $0.request.headerFields["Accept-Encoding"] }
        #expect(sent == Array(repeating: omitted.isEmpty ? "identity" : nil, count: 3))
        try expectTarget()
    }

    @Test func aPlainDownloadContinuesSegments() async throws {
        // The first segment is complete before the second one is cut off, in whatever order the requests are sent.
        let progress = Locked<(isFirstThere: Bool, second: StubExchange?)>((false, nil))
        let failing = StubServer { exchange in
            let version = FileVersion(Self.content)
            let range = exchange.request.headerFields["Range"]
            guard range != "bytes=0-0" else { return version.answer(exchange) }
            if range == "bytes=0-2499999" { version.answer(exchange) }
            let second = progress.withLock { progress in
                if range == "bytes=0-2499999" { progress.isFirstThere = true } else { progress.second = exchange }
                return progress.isFirstThere ? progress.second : nil
            }
            if let second { version.answer(second, sending: 1_000_000, thenFailing: .cut) }
        }
        _ = await error(of: download(from: failing))
        let server = Self.complete
        _ = try await Sending(Request.stub("file").saved(to: target), over: server.transport).response()
        #expect(ranges(server) == ["bytes=3500000-"])
        try expectTarget()
    }

    @Test func segmentsContinueAPlainDownload() async throws {
        let failing = StubServer { FileVersion(Self.content).answer($0, sending: 2_000_000, thenFailing: .cut) }
        let sending = Sending(Request.stub("file").saved(to: target), over: failing.transport)
        #expect(try await sending.error().code == .connectionLost)
        let server = Self.complete
        _ = try await download(from: server).file()
        #expect(ranges(server).sorted() == ["bytes=0-0", "bytes=2000000-3499999", "bytes=3500000-4999999"])
        try expectTarget()
    }

    @Test func retriesOfASegmentGoOnWhereItWas() async throws {
        let server = StubServer { exchange in
            let isFirst = exchange.request.headerFields["Range"] == "bytes=2500000-4999999"
            FileVersion(Self.content).answer(
                exchange, sending: isFirst ? 1_000_000 : .max, thenFailing: isFirst ? .cut : nil)
        }
        _ = try await download(.stub("file").retries(RetryPolicy(baseDelay: .zero)), from: server).file()
        #expect(ranges(server).contains("bytes=3500000-4999999"))
        try expectTarget()
    }

    @Test func mirrorsShareTheWorkAndStandInForEachOther() async throws {
        let server = StubServer { exchange in
            switch exchange.request.url.host() {
            case "stub": FileVersion(Self.content).answer(exchange)
            case "b": FileVersion(Self.content, etag: "\"of b\"").answer(exchange)
            default: exchange.answer(500)
            }
        }
        let mirrors = [try mirror, try #require(URL(string: "http://c/file"))]
        let request = Request.stub("file").bearer("s3cret").header("X-Plain", "1")
        _ = try await download(request, from: server, segments: 4, mirrors: mirrors, verifying: Self.digest).file()
        #expect(Set(server.exchanges.events.compactMap { $0.request.url.host() }) == ["stub", "b", "c"])
        for sent in server.exchanges.events.map(\.request) {
            #expect(sent.headerFields.contains("Authorization") == (sent.url.host() == "stub"))
            #expect(sent.headerFields["X-Plain"] == "1")
        }
        try expectTarget()
    }

    @Test(arguments: [true, false], [404, 403, 500])
    func aMirrorReplacesAServerThatRefuses(hasRanges: Bool, status: Int) async throws {
        let server = StubServer { exchange in
            if exchange.request.url.host() == "stub" { return exchange.answer(status) }
            if hasRanges { return FileVersion(Self.content).answer(exchange) }
            exchange.answer(200, body: Self.content)
        }
        let request = Request.stub("file").bearer("s3cret")
        _ = try await download(request, from: server, mirrors: [mirror], verifying: Self.digest).file()
        try expectTarget()
        let toMirror = server.exchanges.events.filter { $0.request.url.host() == "b" }
        #expect(toMirror.allSatisfy { !$0.request.headerFields.contains("Authorization") })
    }

    @Test func theFirstServerThatRefusesIsReported() async throws {
        let server = StubServer { $0.answer($0.request.url.host() == "stub" ? 404 : 403) }
        let download = download(from: server, mirrors: [try mirror], verifying: Self.digest)
        let error = try #require(await error(of: download))
        #expect(error.code == .unacceptableStatus)
        #expect(error.response?.statusCode == 404)
        #expect(try directory.entries == [])
    }

    /// An empty file has no first byte, so the server answers the probe of that byte with 416.
    @Test func anEmptyFileIsFetchedFromTheFirstServer() async throws {
        let server = StubServer { exchange in
            if exchange.request.headerFields.contains("Range") { return exchange.answer(416) }
            exchange.answer(200)
        }
        _ = try await download(from: server, mirrors: [mirror], verifying: FileDigest.ofBytes(Data())).file()
        #expect(server.exchanges.events.map { $0.request.url.host() } == ["stub", "stub"])
    }

    @Test func mirrorThatLiesIsCaughtAndNamed() async throws {
        let other = FileVersion.seeded(9, byteCount: 5_000_000)
        let server = StubServer { exchange in
            FileVersion(exchange.request.url.host() == "b" ? other : Self.content).answer(exchange)
        }
        let download = download(from: server, mirrors: [try mirror], verifying: Self.digest)
        let error = try #require(await error(of: download))
        #expect(error.code == .integrityFailed)
        #expect(error.message.contains("2500000-4999999 came from http://b/file"))
        #expect(try directory.entries == [])
    }

    @Test(arguments: [true, false], [true, false])
    func aMirrorGetsNoCredentialsUnlessItsOriginIsNamed(isNamed: Bool, isBearer: Bool) async throws {
        let server = StubServer { exchange in
            guard exchange.request.url.host() == "b", !exchange.request.headerFields.contains("Authorization") else {
                return FileVersion(Self.content).answer(exchange)
            }
            exchange.answer(401, headerFields: ["WWW-Authenticate": "Basic realm=r"])
        }
        let mirror = try mirror
        let interceptor: any RequestInterceptor =
            switch (isBearer, isNamed) {
            case (true, true): try BearerAuthenticator(token: "t", origins: [mirror]) { _ in "t" }
            case (true, false): BearerAuthenticator(token: "t") { _ in "t" }
            case (false, _):
                try PasswordAuthenticator(user: "u", password: "p", origins: isNamed ? [mirror] : nil)
            }
        let manager = server.manager { $0.interceptors = [interceptor] }
        _ = try await manager.downloadInSegments(
            .stub("file"), to: target, segments: 2, mirrors: [mirror], verifying: Self.digest
        ).file()
        let toMirror = server.exchanges.events.filter { $0.request.url.host() == "b" }
        #expect(!toMirror.isEmpty)
        #expect(toMirror.contains { $0.request.headerFields.contains("Authorization") } == isNamed)
        try expectTarget()
    }

    /// Bytes from mirrors are continued only with a digest, because otherwise their version is unknown.
    ///
    /// The second download has no digest, so it requests the whole file.
    @Test func bytesOfMirrorsAreContinuedWithADigestOnly() async throws {
        let first = download(
            from: Self.partial(2_000_000, thenFailing: .cut), limit: 1, mirrors: [try mirror], verifying: Self.digest)
        #expect(await error(of: first)?.code == .connectionLost)
        let server = Self.complete
        _ = try await Sending(Request.stub("file").saved(to: target), over: server.transport).response()
        #expect(ranges(server) == ["whole"])
        try expectTarget()
    }

    /// If the server ignores the range of the probe, its complete response is cancelled and the file is requested
    /// once.
    @Test func probeDoesNotListenToTheWhole() async throws {
        let server = StubServer.held()
        let download = download(from: server)
        let probe = await server.exchanges.wait()[0]
        probe.respond(ResponseHead(statusCode: 200, expectedBytes: 5_000_000))
        let second = await server.exchanges.wait(count: 2)[1]
        #expect(second.request.headerFields["Range"] == nil)
        FileVersion(Self.content).answer(second)
        _ = try await download.file()
        try expectTarget()
    }

    @Test(arguments: [400, 403, 404, 405, 409, 410, 412, 416, 451, 501])
    func aRefusedRangeIsFetchedWithTheWhole(status: Int) async throws {
        let server = StubServer { exchange in
            let range = exchange.request.headerFields["Range"]
            guard range == nil || range == "bytes=0-0" || range == "bytes=0-2499999" else {
                return exchange.answer(status)
            }
            FileVersion(Self.content).answer(exchange)
        }
        #expect(try await download(from: server, verifying: Self.digest).file() == target)
        try expectTarget()
    }

    /// These statuses say nothing about the range, so the received bytes stay.
    @Test(arguments: [429, 503]) func aSegmentThatIsRefusedForNowFails(status: Int) async throws {
        let server = StubServer.held()
        let download = download(from: server)
        FileVersion(Self.content).answer(await server.exchanges.wait()[0])
        let segments = await server.exchanges.wait(count: 3).dropFirst()
        for exchange in segments where exchange.request.headerFields["Range"] == "bytes=0-2499999" {
            FileVersion(Self.content).answer(exchange)
        }
        await look { download.progress.download.completedBytes == 2_500_000 }
        for exchange in segments where exchange.request.headerFields["Range"] != "bytes=0-2499999" {
            exchange.answer(status)
        }
        #expect(await error(of: download)?.code == .unacceptableStatus)
        #expect(ranges(server).count == 3)
        #expect(try directory.entries == [".target.convoy-part", ".target.convoy-resume"])
    }

    @Test func mirrorsNeedADigest() async throws {
        let server = StubServer()
        #expect(await error(of: download(from: server, mirrors: [try mirror]))?.code == .invalidRequest)
        #expect(server.exchanges.count == 0)
    }

    /// Either the segments or the one piece of a server without ranges are received when the download is cancelled.
    @Test(arguments: [(true, true), (false, true), (false, false)])
    func cancellingKeepsReceivedBytesIfItMay(keepsPart: Bool, hasRanges: Bool) async throws {
        let version = FileVersion(Self.content)
        let server =
            hasRanges
            ? Self.partial(500_000, isLeftOpen: true)
            : StubServer {
                version.send($0, 200, version.headerFields, Self.content, 500_000, nil, isLeftOpen: true)
            }
        let download = download(from: server)
        await look { download.progress.download.completedBytes == (hasRanges ? 1_000_000 : 500_000) }
        await look { (try? directory.entries) == [".target.convoy-part", ".target.convoy-resume"] }
        if keepsPart { download.cancel() } else { download.cancel(keepingPart: false) }
        #expect(await error(of: download)?.code == .cancelled)
        #expect(try directory.entries == (keepsPart ? [".target.convoy-part", ".target.convoy-resume"] : []))
        guard keepsPart else { return }
        let next = Self.complete
        _ = try await self.download(from: next).file()
        #expect(!ranges(next).contains("bytes=0-2499999"))
        try expectTarget()
    }

    @Test(arguments: ConformingTransport.all) func everyTransportFetchesSegments(transport: ConformingTransport)
        async throws
    {
        let server = try TestServer()
        defer { server.shutDown() }
        server.route("/file") { _ in .resource(Self.content, etag: "\"v1\"") }
        let download = transport.manager().downloadInSegments(
            .get(server.url("/file")), to: target, segments: 4, verifying: Self.digest)
        _ = try await download.file()
        try expectTarget()
    }
}
