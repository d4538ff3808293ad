import Foundation
import Testing

@testable import Convoy

/// Tests how downloads are resumed, without a network: the requested ranges, and the use of existing parts.
@Suite(.timeLimit(.minutes(5))) struct ResumingTests {
    private typealias Run = (result: RequestOperation<URL>.Result, sent: [PreparedRequest])

    private let directory: TemporaryDirectory
    private var target: URL { directory.file("target") }
    private static let old = FileVersion.seeded(1, byteCount: 300_000)
    private static let new = FileVersion.seeded(2, byteCount: 350_000)
    private static let part = ".target.convoy-part"
    private static let record = ".target.convoy-resume"
    private static let range = "bytes=100000-"

    init() throws { directory = try TemporaryDirectory() }

    private func download(
        _ request: Request<Data> = .stub("file"), verifying digest: FileDigest? = nil,
        existing: ExistingFile = .overwrite, _ answer: @escaping @Sendable (StubExchange) -> Void
    ) async throws -> Run {
        let server = StubServer(answer: answer)
        let request = request.saved(to: target, verifying: digest, existing: existing)
        let sending = Sending(request, over: server.transport)
        return (try await sending.result(), server.exchanges.events.map(\.request))
    }

    /// Expects that a server is asked for these ranges, and that the download ends with a file.
    ///
    /// - Parameter content: the content of the file; nil if the download fails and the part stays.
    @discardableResult
    private func expect(
        _ content: Data?, after ranges: [String?], _ request: Request<Data> = .stub("file"),
        verifying digest: FileDigest? = nil, sourceLocation: SourceLocation = #_sourceLocation,
        _ answer: @escaping @Sendable (StubExchange) -> Void
    ) async throws -> Run {
        let run = try await download(request, verifying: digest, answer)
        #expect(run.sent.map { $0.headerFields["Range"] } == ranges, sourceLocation: sourceLocation)
        if let content {
            #expect(run.result.code == nil, sourceLocation: sourceLocation)
            try expectTarget(content, sourceLocation: sourceLocation)
        } else {
            #expect(run.result.code != nil, sourceLocation: sourceLocation)
            try expectPart(sourceLocation: sourceLocation)
        }
        return run
    }

    /// Leaves the part of a download that was cut off after 100,000 bytes; returns the fields of its request.
    @discardableResult
    private func leavePart(
        _ request: Request<Data> = .stub("file"), of version: FileVersion = FileVersion(old)
    ) async throws -> HeaderFields {
        let (result, sent) = try await download(request) { version.answer($0, sending: 100_000, thenFailing: .cut) }
        #expect(result.code == .connectionLost)
        try expectPart()
        return sent[0].headerFields
    }

    /// Expects a download to lose its connection.
    private func cut(
        _ request: Request<Data> = .stub("file"), _ answer: @escaping @Sendable (StubExchange) -> Void
    ) async throws {
        #expect(try await download(request, answer).result.code == .connectionLost)
    }

    private func hold(
        _ request: Request<Data> = .stub("file"), pausesInPlace: Bool = true
    ) async -> (server: StubServer, sending: Sending<URL>, exchange: StubExchange) {
        let server = StubServer.held(pausesInPlace: pausesInPlace)
        let sending = Sending(request.saved(to: target), over: server.transport)
        return (server, sending, await server.exchanges.wait()[0])
    }

    private func expectTarget(_ content: Data, sourceLocation: SourceLocation = #_sourceLocation) throws {
        #expect(try directory.entries == ["target"], sourceLocation: sourceLocation)
        #expect(try Data(contentsOf: target) == content, sourceLocation: sourceLocation)
    }

    private func expectPart(sourceLocation: SourceLocation = #_sourceLocation) throws {
        #expect(try directory.entries == [Self.part, Self.record], sourceLocation: sourceLocation)
        #expect(
            try Data(contentsOf: directory.file(Self.part)) == Self.old.prefix(100_000), sourceLocation: sourceLocation)
    }

    private func partBytes() -> Int? { FileManager.default.contents(atPath: directory.file(Self.part).path)?.count }

    @Test func theRestOfTheSameVersionIsRequested() async throws {
        let first = try await leavePart()
        #expect(first["Range"] == nil && first["If-Range"] == nil && first["Accept-Encoding"] == "identity")
        let (result, sent) = try await expect(Self.old, after: [Self.range]) { FileVersion(Self.old).answer($0) }
        let response = try result.get()
        #expect(sent[0].headerFields["If-Range"] == "\"v1\"")
        #expect(sent[0].headerFields["Accept-Encoding"] == "identity")
        #expect(response.statusCode == 206)
        #expect(response.transfer.resumedBytes == 100_000)
        #expect(response.transfer.download.completedBytes == 300_000)
        #expect(response.transfer.download.totalBytes == 300_000)
    }

    @Test func anOmittedAcceptEncodingIsNotSent() async throws {
        let request = Request.stub("file").omitting(transportFields: ["accept-encoding"])
        try await leavePart(request)
        let (_, sent) = try await expect(Self.old, after: [Self.range], request) { FileVersion(Self.old).answer($0) }
        #expect(sent.map { $0.headerFields["Accept-Encoding"] } == [nil])
    }

    /// A date that is older than the response is a validator.
    @Test(
        arguments: [
            ("W/\"v1\"", nil), (nil, nil), (nil, "Sat, 21 Nov 2026 10:00:00 GMT"),
            ("W/\"v1\"", "Sat, 21 Nov 2026 09:00:00 GMT"),
        ] as [(String?, String?)])
    func onlyAStrongValidatorLeavesAPart(etag: String?, modified: String?) async throws {
        let version = Self.dated(modified, etag: etag)
        try await cut { version.answer($0, sending: 100_000, thenFailing: .cut) }
        let isStrong = modified?.contains("09:00:00") == true
        #expect(try directory.entries == (isStrong ? [Self.part, Self.record] : []))
        let (_, sent) = try await expect(Self.old, after: [isStrong ? Self.range : nil]) { version.answer($0) }
        #expect(sent[0].headerFields["If-Range"] == (isStrong ? modified : nil))
    }

    private static func dated(_ modified: String?, etag: String? = nil) -> FileVersion {
        var version = FileVersion(old, etag: etag, headerFields: ["Date": "Sat, 21 Nov 2026 10:00:00 GMT"])
        version.headerFields["Last-Modified"] = modified
        return version
    }

    /// Answers to a range that do not continue the part: refusals, and ranges of other bytes or another version.
    private static let useless: [(status: Int, fields: HeaderFields)] =
        refusals + unsatisfied + (wrongRanges + wrongVersions).map { (status: 206, fields: $0) }
        + wrongRanges[1...3].map { (status: 200, fields: $0) }
    private static let refusals: [(status: Int, fields: HeaderFields)] = [
        204, 205, 300, 304, 400, 401, 403, 404, 405, 406, 409, 410, 412, 413, 416, 417, 422, 428, 431, 451, 501, 505,
    ].map { ($0, [:]) }
    private static let unsatisfied: [(status: Int, fields: HeaderFields)] =
        ["bytes */50000", "bytes */100000", "bytes */*", "bytes 0-1/2"].map { (416, ["Content-Range": $0]) }
    private static let wrongRanges: [HeaderFields] = [
        "bytes 0-299999/300000", "bytes 99999-299999/300000", "bytes 200000-299999/300000", "bytes 0-99999/300000",
        "bytes 100000-299999/400000", "bytes 100000-299998/300000", "lines 100000-299999/300000", "bytes 100000",
        "bytes */300000",
    ].map { ["ETag": "\"v1\"", "Content-Range": $0] }
    private static let wrongVersions: [HeaderFields] = [
        [:], ["ETag": "\"v1\"", "Content-Type": "multipart/byteranges; boundary=x"],
        ["Content-Range": "bytes 100000-299999/300000", "ETag": "\"v2\""],
        ["Content-Range": "bytes 100000-299999/300000"],
        ["Content-Range": "bytes 100000-299999/300000", "ETag": "W/\"v1\""],
        ["Content-Range": "bytes 100000-299999/300000", "ETag": "\"v1\"", "Content-Encoding": "gzip"],
    ]

    @Test(arguments: useless.indices) func aRangeThatIsRefusedOrWrongStartsOver(index: Int) async throws {
        try await leavePart()
        let (status, fields) = Self.useless[index]
        let (result, sent) = try await expect(Self.new, after: [Self.range, nil]) { exchange in
            guard exchange.request.headerFields["Range"] != nil else { return FileVersion(Self.new).answer(exchange) }
            let body = [200, 206].contains(status) ? Self.old.dropFirst(100_000) : Data("no ranges".utf8)
            FileVersion(Self.old).send(exchange, status, fields, body)
        }
        #expect(try result.get().attempts.map(\.next) == [.startOver, .outcome])
        #expect(sent[1].headerFields["If-Range"] == nil)
    }

    /// A 200 with the requested range is not the complete file; any other `Content-Range` has no meaning there.
    @Test(arguments: [
        nil, "bytes 0-299999/300000", "bytes 0-299999/*", "bytes */300000", "lines 100000-299999/300000", "nonsense",
        "bytes 100000-299999/300000", "bytes 100000-299999/*",
    ])
    func aRangeInA200ContinuesThePart(range: String?) async throws {
        var fields: HeaderFields = ["ETag": "\"v1\""]
        fields["Content-Range"] = range
        try await expect(Self.old, after: [nil]) { [fields] in FileVersion(Self.old).send($0, 200, fields, Self.old) }
        try FileManager.default.removeItem(at: target)
        try await leavePart()
        let rest = range?.hasPrefix("bytes 100000-") == true ? Self.old.dropFirst(100_000) : Self.old
        let (result, _) = try await expect(Self.old, after: [Self.range]) { [fields] exchange in
            FileVersion(Self.old).send(exchange, 200, fields, rest)
        }
        #expect(try result.get().transfer.resumedBytes == 300_000 - Int64(rest.count))
    }

    @Test(arguments: [206, 204]) func serverThatOnlyLiesLeavesThePartAlone(status: Int) async throws {
        try await leavePart()
        let (result, _) = try await expect(nil, after: [Self.range, nil]) { exchange in
            guard status == 206 else { return exchange.answer(status) }
            FileVersion(Self.old).send(
                exchange, 206, ["Content-Range": "bytes 5-299999/300000"], Self.old.dropFirst(5))
        }
        #expect(result.code == .badResponse)
    }

    @Test(arguments: [nil, 407, 408, 425, 429, 502, 503, 504, 511])
    func failureOfAnotherKindLeavesThePartAlone(status: Int?) async throws {
        try await leavePart()
        try await expect(nil, after: [Self.range]) { exchange in
            if let status { exchange.answer(status) } else { exchange.finish(.cut) }
        }
    }

    /// Some servers and firewalls close the connection when a range is requested.
    @Test(arguments: [true, false]) func aConnectionClosedOnEveryRangeStartsOver(isForRangesOnly: Bool) async throws {
        try await leavePart()
        let ranges: [String?] = Array(repeating: Self.range, count: 3) + [nil]
        let content = isForRangesOnly ? Self.new : nil
        let (result, _) = try await expect(content, after: ranges, Self.retrying(2)) { exchange in
            if isForRangesOnly, exchange.request.headerFields["Range"] == nil {
                return FileVersion(Self.new, etag: "\"v2\"").answer(exchange)
            }
            exchange.finish(.cut)
        }
        #expect(result.code == (isForRangesOnly ? nil : .connectionLost))
    }

    /// The credentials come first, then the request without the range.
    @Test(arguments: [true, false]) func a401StartsOverOnceItCannotBeAnswered(isAccepted: Bool) async throws {
        try await leavePart()
        let request = Request.stub("file").intercepted(by: try PasswordAuthenticator(user: "u", password: "p"))
        let ranges: [String?] = [Self.range, Self.range] + (isAccepted ? [] : [nil])
        try await expect(Self.old, after: ranges, request) { exchange in
            let fields = exchange.request.headerFields
            let isAnswered = isAccepted && fields.contains("Authorization")
            if isAnswered || fields["Range"] == nil { return FileVersion(Self.old).answer(exchange) }
            exchange.answer(401, headerFields: ["WWW-Authenticate": "Basic realm=r"])
        }
    }

    @Test(arguments: [403, 404, 410, 500, 503]) func refusedFileFailsWithTheSecondAnswer(status: Int) async throws {
        try await leavePart()
        let (result, _) = try await expect(nil, after: [Self.range, nil]) { exchange in
            exchange.answer(exchange.request.headerFields["Range"] == nil ? status : 400)
        }
        #expect(result.code == .unacceptableStatus)
        #expect((result.failure as? RequestError)?.response?.statusCode == status)
    }

    /// A status that the policy retries may be temporary, so the range is requested again before the complete file.
    @Test func aRetriedStatusStartsOverAfterItsRetries() async throws {
        try await leavePart()
        var policy = RetryPolicy(maxRetries: 2, baseDelay: .zero)
        policy.statusCodes = [404]
        let ranges: [String?] = Array(repeating: Self.range, count: 3) + [nil]
        try await expect(Self.old, after: ranges, Request.stub("file").retries(policy)) { exchange in
            guard exchange.request.headerFields["Range"] != nil else { return FileVersion(Self.old).answer(exchange) }
            exchange.answer(404)
        }
    }

    /// The complete file is requested after a wrong range, however often that fails.
    @Test(arguments: ["lost", "refused", "redirected", "cut"])
    func theCompleteFileIsRequestedUntilItArrives(ending: String) async throws {
        try await leavePart()
        let (count, version) = (Locked(0), FileVersion(Self.old))
        let ranges: [String?] = [Self.range, nil, ending == "cut" ? "bytes=200000-" : nil]
        try await expect(Self.old, after: ranges, Self.retrying(3)) { exchange in
            switch (count.countUp(), ending) {
            case (1, _): version.send(exchange, 206, ["Content-Range": "bytes 5-299999/300000"], Self.old.dropFirst(5))
            case (2, "lost"): exchange.finish(.cut)
            case (2, "refused"): exchange.answer(503)
            case (2, "redirected"): exchange.answer(302, headerFields: ["Location": "/elsewhere"])
            case (2, _): version.answer(exchange, sending: 200_000, thenFailing: .cut)
            default: version.answer(exchange)
            }
        }
    }

    // MARK: Retries

    private static func retrying(_ count: Int) -> Request<Data> {
        .stub("file").retries(RetryPolicy(maxRetries: count, baseDelay: .zero))
    }

    @Test(arguments: [1, 3]) func attemptsThatMakeProgressRenewTheRetries(retries: Int) async throws {
        let ranges: [String?] = [nil] + (1..<30).map { "bytes=\($0 * 10_000)-" }
        let (result, _) = try await expect(Self.old, after: ranges, Self.retrying(retries)) { exchange in
            let isLast = exchange.request.headerFields["Range"] == "bytes=290000-"
            FileVersion(Self.old).answer(exchange, sending: 10_000, thenFailing: isLast ? nil : .cut)
        }
        #expect(try result.get().attempts.map(\.transfer.resumedBytes) == (0..<30).map { Int64($0) * 10_000 })
    }

    /// The third attempt fails without a byte, the fourth makes progress, and the others fail.
    @Test func anAttemptWithoutProgressCounts() async throws {
        let count = Locked(0)
        let (result, sent) = try await download(Self.retrying(2)) { exchange in
            let isProgress = [1, 2, 4].contains(count.countUp())
            FileVersion(Self.old).answer(exchange, sending: isProgress ? 10_000 : 0, thenFailing: .cut)
        }
        #expect(result.code == .connectionLost)
        #expect(
            sent.map { $0.headerFields["Range"] }
                == [nil, "bytes=10000-", "bytes=20000-", "bytes=20000-", "bytes=30000-", "bytes=30000-"])
    }

    /// Each attempt receives more bytes than the one before, or as many, but none can be continued.
    @Test(arguments: [
        ("decoded", true), ("own coding", true), ("decoded", false), ("no validator", false), ("no ranges", false),
    ])
    func bytesThatCannotBeContinuedAreNoProgress(kind: String, isGrowing: Bool) async throws {
        var request = Self.retrying(2)
        if kind == "decoded" { request = request.decodingFile() }
        if kind == "own coding" { request = request.header("Accept-Encoding", "gzip") }
        let count = Locked(0)
        let (result, sent) = try await download(request) { exchange in
            let fields: HeaderFields = kind == "no validator" ? [:] : ["ETag": "\"v1\""]
            let limit = isGrowing ? count.countUp() * 10_000 : 100_000
            FileVersion(Self.old).send(exchange, 200, fields, Self.old, limit, .cut)
        }
        #expect(result.code == .connectionLost)
        #expect(sent.count == 3)
    }

    // MARK: Signed links

    private static let links = [
        ("X-Amz-Date=1&X-Amz-Signature=a", "X-Amz-Date=2&X-Amz-Signature=b"),
        ("sv=2020-10-02&se=2026-11-21&sig=a", "sv=2020-10-02&se=2026-11-22&sig=b"),
        ("Expires=1&Signature=a&Key-Pair-Id=k", "Expires=2&Signature=b&Key-Pair-Id=k"),
        ("X-Goog-Expires=1&X-Goog-Signature=a", "X-Goog-Expires=2&X-Goog-Signature=b"),
        ("OSSAccessKeyId=k&Expires=1&Signature=a", "OSSAccessKeyId=k&Expires=2&Signature=b"),
        ("token=a", "token=b"), ("token=a", ""), ("", "token=a"), ("id=1&SIG=a", "id=1&sig=b"),
        ("verify=1-a%2Fb", "verify=2-%2B"),
    ]

    private static func link(_ query: String) -> Request<Data> {
        .get("http://stub/file" + (query.isEmpty ? "" : "?\(query)"))
    }

    @Test(arguments: links) func aFreshLinkContinuesThePart(old: String, fresh: String) async throws {
        try await leavePart(Self.link(old))
        // The second link expires as well.
        try await cut(Self.link(fresh)) {
            FileVersion(Self.old).answer($0, sending: 100_000, thenFailing: .cut)
        }
        let last = Self.link(fresh.isEmpty ? "Policy=p" : fresh + "&Policy=p")
        let (_, sent) = try await expect(Self.old, after: ["bytes=200000-"], last) { FileVersion(Self.old).answer($0) }
        #expect(sent[0].headerFields["If-Range"] == "\"v1\"")
    }

    /// Two files of one path may have the same entity tag, such as the number of their version.
    @Test(arguments: [
        ("id=1", "file?id=2"), ("id=1", "file"), ("", "file?id=1"), ("id=a%2Fb", "file?id=a%2Fc"),
        ("id=1&X-Amz-Signature=a", "file?id=2&X-Amz-Signature=a"), ("id=1&sig=a", "file?ID=1&sig=a"), ("", "other"),
        ("token=a", "other?token=b"), ("token=a", "//other/file?token=b"), ("token=a", "https://stub/file?token=b"),
        ("token=a", "//stub:81/file?token=b"),
    ])
    func anotherURLStartsOver(old: String, other: String) async throws {
        try await leavePart(Self.link(old))
        let url = try #require(URL(string: other, relativeTo: URL(string: "http://stub/"))).absoluteString
        try await expect(Self.new, after: [nil], .get(url)) { FileVersion(Self.new).answer($0) }
    }

    /// Without an entity tag, another query may be another file of the same date.
    @Test func aFreshLinkDoesNotContinueAPartThatOnlyADateIdentifies() async throws {
        let version = Self.dated("Sat, 21 Nov 2026 09:00:00 GMT")
        try await leavePart(Self.link("token=a"), of: version)
        try await expect(Self.old, after: [nil], Self.link("token=b")) { version.answer($0) }
    }

    // MARK: Cancelling without a part

    enum Stage: CaseIterable, Sendable {
        case neverBegun, queued, sent, receiving, suspended, retrying
    }

    @Test(arguments: Stage.allCases, [true, false]) func cancellingMayKeepNoPart(stage: Stage, keepsPart: Bool)
        async throws
    {
        try await leavePart()
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = server.manager(1, clock: clock)
        let request = Request.stub("file").retries(.standard).saved(to: target)
        var first: RequestOperation<Data>?
        if stage == .queued {
            first = manager.enqueue(Request.stub("first"))
            _ = await server.exchanges.wait()
        }
        let operation = stage == .neverBegun ? manager.operation(request) : manager.enqueue(request)
        if ![.neverBegun, .queued].contains(stage) {
            let exchange = await server.exchanges.wait()[0]
            if stage != .sent {
                FileVersion(Self.old).answer(exchange, sending: 50_000, isLeftOpen: true)
                await look { operation.progress.download.completedBytes == 150_000 }
            }
            if stage == .suspended { operation.suspend() }
            if stage == .retrying {
                exchange.finish(.cut)
                await clock.armed.wait()
            }
        }
        operation.cancel(keepingPart: keepsPart)
        let error = await #expect(throws: RequestError.self) { try await operation.response() }
        #expect(error?.code == .cancelled)
        first?.cancel()
        await manager.drain()
        #expect(try directory.entries == (keepsPart ? [Self.part, Self.record] : []))
    }

    @Test func cancellingWithoutAPartLeavesThatOfAnotherURL() async throws {
        try await leavePart()
        let (_, sending, _) = await hold(.stub("other"))
        sending.operation.cancel(keepingPart: false)
        #expect(try await sending.error().code == .cancelled)
        try expectPart()
    }

    @Test func aCompleteFileStaysWhenTheDownloadIsCancelledAfterwards() async throws {
        let (_, sending, exchange) = await hold()
        FileVersion(Self.old).answer(exchange)
        _ = try await sending.response()
        sending.operation.cancel(keepingPart: false)
        try expectTarget(Self.old)
    }

    // MARK: Complete parts

    @Test func a416AtTheEndOfAFileOfUnknownLengthCompletesIt() async throws {
        try await cut { $0.answer(200, ["ETag": "\"v1\""], pieces: [Self.old], then: .cut) }
        let (result, _) = try await expect(Self.old, after: ["bytes=300000-"]) { FileVersion(Self.old).answer($0) }
        #expect(try result.get().statusCode == 416)
        #expect(try result.get().transfer.download.completedBytes == 300_000)
    }

    /// A 416 seldom names a version, so a complete part is checked by requesting its last byte.
    @Test(arguments: [true, false]) func aCompletePartIsCheckedByItsLastByte(isVerified: Bool) async throws {
        try await cut { FileVersion(Self.old).answer($0, thenFailing: .cut) }
        let digest = isVerified ? FileDigest.sha256(Self.old.sha256) : nil
        let (result, _) = try await expect(Self.old, after: ["bytes=299999-"], verifying: digest) {
            FileVersion(Self.old).answer($0)
        }
        let response = try result.get()
        #expect(response.statusCode == 206)
        #expect(response.transfer.download.completedBytes == 300_000)
        #expect(response.transfer.resumedBytes == 299_999)
    }

    /// The digest of the first attempt includes the byte that the second attempt receives again.
    @Test func theDigestIsThatOfTheStoredBytes() async throws {
        var other = Self.old
        other[299_999] ^= 1
        let (result, _) = try await download(Self.retrying(1), verifying: .sha256(Self.old.sha256)) {
            [other] exchange in
            switch exchange.request.headerFields["Range"] {
            case nil: FileVersion(Self.old).answer(exchange, thenFailing: .cut)
            default: FileVersion(other).answer(exchange)
            }
        }
        #expect(result.code != nil)
        #expect(try !directory.entries.contains("target"))
    }

    // MARK: Codings and ranges of the caller's own

    /// The server stores the file in this coding, so the download stores the bytes as the server sends them.
    @Test(arguments: [true, false])
    func codedAnswerIsContinuedInItsCoding(isTold: Bool) async throws {
        let version = FileVersion(Self.old, headerFields: ["Content-Encoding": "gzip"])
        try await leavePart(of: version)
        try await expect(Self.old, after: [Self.range]) { (isTold ? version : FileVersion(Self.old)).answer($0) }
    }

    /// Decoded bytes do not correspond to a range on the server either.
    @Test(
        arguments: [
            (Request<Data>.stub("file").header("Range", "bytes=5-"), "identity"),
            (.stub("file").header("Accept-Encoding", "gzip"), "gzip"),
            (.stub("file").header("If-None-Match", "\"v1\""), "identity"), (.stub("file").decodingFile(), nil),
            (.post("http://stub/file").body(Data("x".utf8), contentType: "text/plain"), "identity"),
        ] as [(Request<Data>, String?)])
    func requestWithItsOwnRangesIsSentAsItIs(request: Request<Data>, accepted: String?) async throws {
        let (result, sent) = try await download(request) { exchange in
            FileVersion(Self.old).send(exchange, 200, ["ETag": "\"v1\""], Self.old, 100_000, .cut)
        }
        #expect(result.code == .connectionLost)
        #expect(sent[0].headerFields["Range"] == request.headerFields["Range"])
        #expect(sent[0].headerFields["Accept-Encoding"] == accepted)
        #expect(try directory.entries == [])
    }

    @Test func rangeOfTheCallersOwnIsTheFile() async throws {
        let request = Request.stub("file").header("Range", "bytes=5-")
        let (result, _) = try await expect(Self.old.dropFirst(5), after: ["bytes=5-"], request) {
            FileVersion(Self.old).answer($0)
        }
        #expect(try result.get().statusCode == 206)
    }

    @Test func anUnrequestedRangeIsAnError() async throws {
        let (result, sent) = try await download { exchange in
            FileVersion(Self.old).send(exchange, 206, ["Content-Range": "bytes 0-9/300000"], Self.old.prefix(10))
        }
        #expect(result.code == .badResponse)
        #expect(sent.count == 1)
        #expect(try directory.entries == [])
    }

    @Test func aRangeShorterThanRequestedIsContinued() async throws {
        try await leavePart()
        try await expect(Self.old, after: [Self.range, "bytes=200000-"], Self.retrying(3)) { exchange in
            let start = exchange.request.headerFields["Range"] == Self.range ? 100_000 : 200_000
            let range = start..<start + 100_000
            FileVersion(Self.old).send(
                exchange, 206,
                ["ETag": "\"v1\"", "Content-Range": "bytes \(start)-\(range.upperBound - 1)/300000"], Self.old[range])
        }
    }

    // A range may be shorter than requested. Without the total length, the end of the file is unknown.
    @Test func rangeOfUnknownWholeIsNotTheEnd() async throws {
        try await cut {
            $0.answer(200, ["ETag": "\"v1\""], pieces: [Self.old.prefix(100_000)], then: .cut)
        }
        try await expect(Self.old, after: [Self.range, nil]) { exchange in
            guard exchange.request.headerFields["Range"] != nil else { return FileVersion(Self.old).answer(exchange) }
            let fields: HeaderFields = ["ETag": "\"v1\"", "Content-Range": "bytes 100000-199999/*"]
            FileVersion(Self.old).send(exchange, 206, fields, Self.old[100_000..<200_000])
        }
    }

    // MARK: Suspended downloads, and disks

    // A suspended download closes its connection. When it is resumed, the download sends a new request.
    @Test func suspendedDownloadContinues() async throws {
        let (server, sending, first) = await hold()
        FileVersion(Self.old).answer(first, sending: 100_000, isLeftOpen: true)
        // The head was recorded before the bytes after it were written.
        await look { partBytes() == 100_000 }
        sending.operation.suspend()
        sending.operation.resume()
        try await expectContinued(sending, of: server)
    }

    private func expectContinued(_ sending: Sending<URL>, of server: StubServer) async throws {
        let second = try #require(await server.exchanges.wait(count: 2).last)
        #expect(second.request.headerFields["Range"] == Self.range)
        FileVersion(Self.old).answer(second)
        #expect(try await sending.response().attempts.map(\.next) == [.suspended, .outcome])
        try expectTarget(Self.old)
    }

    // The transport's thread delivers bytes during the suspension. The download writes these bytes before the next
    // attempt reads the size of the part.
    @Test func nextAttemptWaitsForTheLastWriteOfTheOneThatWasSuspended() async throws {
        let (server, sending, first) = await hold(pausesInPlace: false)
        let operation = sending.operation
        first.respond(ResponseHead(statusCode: 200, headerFields: ["ETag": "\"v1\""], expectedBytes: 300_000))
        let download = try #require(operation.withLock { $0.followUp?.download })
        // The semaphore simulates a slow disk.
        let gate = DispatchSemaphore(value: 0)
        download.executor.async { gate.wait() }
        Thread { first.send(Self.old.prefix(100_000)) }.start()
        await look {
            operation.withLock { $0.transfer }?.attempt.receiving.withLock { $0.afterwards != nil } == true
        }
        let begun = operation.withLock { $0.timings.attemptStarted }
        operation.suspend()
        operation.resume()
        #expect(operation.withLock { $0.timings.attemptStarted } == begun)
        gate.signal()
        try await expectContinued(sending, of: server)
    }

    // The check of the free space fails on the download's serial executor. The failure ends the attempt before any byte
    // is written.
    @Test(arguments: [true, false]) func aDiskThatIsTooSmallIsReported(pausesInPlace: Bool) async throws {
        let (_, sending, exchange) = await hold(pausesInPlace: pausesInPlace)
        exchange.respond(ResponseHead(statusCode: 200, headerFields: ["ETag": "\"v1\""], expectedBytes: .max))
        let error = try await sending.error()
        #expect(error.code == .diskFull)
        #expect((error.underlying as? POSIXError)?.code == .ENOSPC)
        #expect(error.message.contains("\(Int64.max) bytes"))
        #expect(try directory.entries == [])
    }

    @Test func transportThatAnswersAtOnceAndCannotBeHeldWillDo() async throws {
        let server = StubServer(pausesInPlace: false) { FileVersion(Self.old).answer($0) }
        _ = try await Sending(Request.stub("file").saved(to: target), over: server.transport).response()
        try expectTarget(Self.old)
    }

    // MARK: Existing parts and records

    @Test func contentTypeOfTheRestIsCheckedToo() async throws {
        try await leavePart()
        let request = Request.stub("file").acceptableContentTypes("application/zip")
        let (result, _) = try await expect(nil, after: [Self.range], request) { exchange in
            FileVersion(Self.old, headerFields: ["Content-Type": "text/html"]).answer(exchange)
        }
        #expect(result.code == .unacceptableContentType)
    }

    // Another process has removed the part, and another download may have created its own. On a disk, the file is
    // synchronised before it gets its name.
    @Test(arguments: [true, false]) func partThatWasReplacedIsNotGivenTheName(isReplaced: Bool) async throws {
        let directory = isReplaced ? directory : try TemporaryDirectory.besideProducts()
        let server = StubServer.held()
        let sending = Sending(Request.stub("file").saved(to: directory.file("target")), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        FileVersion(Self.old).answer(exchange, sending: 100_000, isLeftOpen: true)
        let part = directory.file(Self.part)
        await look { FileManager.default.contents(atPath: part.path)?.count == 100_000 }
        try FileManager.default.removeItem(at: part)
        if isReplaced { try Data("another's".utf8).write(to: part) }
        exchange.send(Self.old.dropFirst(100_000))
        exchange.finish()
        #expect(try await sending.error().code == .destinationUnwritable)
        guard isReplaced else { return }
        #expect(try directory.entries == [Self.part])
        #expect(try Data(contentsOf: part) == Data("another's".utf8))
    }

    @Test func otherURLThatFailsLeavesThePartAlone() async throws {
        try await leavePart()
        try await expect(nil, after: [nil], .stub("other")) { $0.answer(404) }
    }

    @Test(arguments: [Data(), Data("[]".utf8), Data(repeating: 0x20, count: 1_000_000)])
    func damagedRecordStartsOver(data: Data) async throws {
        try await leavePart()
        try data.write(to: directory.file(Self.record))
        try await expect(Self.new, after: [nil]) { FileVersion(Self.new).answer($0) }
    }

    @Test func partThatIsLongerThanTheFileStartsOver() async throws {
        try await leavePart()
        #expect(truncate(directory.file(Self.part).path, 300_001) == 0)
        try await expect(Self.old, after: [nil]) { FileVersion(Self.old).answer($0) }
    }

    @Test func recordOfAnotherPartIsRemoved() async throws {
        try await leavePart()
        try FileManager.default.removeItem(at: directory.file(Self.part))
        let (result, _) = try await download { $0.answer(404) }
        #expect(result.code == .unacceptableStatus)
        #expect(try directory.entries == [])
    }

    @Test func recordHasNoURL() async throws {
        try await leavePart(Request<Data>.get("http://user:hunter2@stub/file?token=s3cret"))
        let text = String(decoding: try Data(contentsOf: directory.file(Self.record)), as: UTF8.self)
        for word in ["hunter2", "s3cret", "stub"] { #expect(!text.contains(word)) }
    }

    // MARK: Digests

    @Test func wrongDigestKeepsNothing() async throws {
        let digest = FileDigest.sha512(Self.new.sha512)
        let (result, sent) = try await download(verifying: digest) { FileVersion(Self.old).answer($0) }
        #expect(result.code == .integrityFailed)
        #expect((result.failure as? RequestError)?.message.contains(digest.hexadecimal) == true)
        #expect(sent.count == 1)
        #expect(try directory.entries == [])
    }

    /// Bytes from two files do not match the digest, so the complete file is requested.
    @Test func aWrongDigestAfterResumingStartsOver() async throws {
        try await leavePart()
        // The server uses the same entity tag for other content.
        let digest = FileDigest.ofBytes(Self.new)
        try await expect(Self.new, after: [Self.range, nil], verifying: digest) { exchange in
            guard exchange.request.headerFields["Range"] != nil else { return FileVersion(Self.new).answer(exchange) }
            FileVersion(Self.new.prefix(300_000)).answer(exchange)
        }
    }

    @Test func aDigestFromTheFirstResponseIsVerified() async throws {
        let wrong = Self.new.sha256.base64EncodedString()
        try await leavePart(of: FileVersion(Self.old, headerFields: ["Repr-Digest": "sha-256=:\(wrong):"]))
        // The joined bytes do not match the digest that the server gave. The complete response has no digest and is
        // accepted.
        try await expect(Self.old, after: [Self.range, nil]) { FileVersion(Self.old).answer($0) }
    }

    @Test func badDigestIsADefect() async throws {
        let request = Request.stub("file").saved(to: target, verifying: .sha256("abc"))
        #expect(request.defect?.contains("64") == true)
    }
}

/// Tests that a part is continued only from the resource of its bytes, wherever redirects lead.
extension ResumingTests {
    private static let dates: HeaderFields = [
        "Last-Modified": "Sat, 21 Nov 2026 10:00:00 GMT", "Date": "Sat, 21 Nov 2026 12:00:00 GMT",
    ]
    /// A file with the validators and the length of the old one.
    private static let twin = new.prefix(300_000)

    /// Redirects `/file` to another URL, which has the content.
    private static func answer(
        _ exchange: StubExchange, _ location: String, _ content: Data, etag: String? = "\"1\"",
        sending limit: Int = .max
    ) {
        guard exchange.request.url.path != "/file" else {
            return exchange.answer(302, headerFields: ["Location": location])
        }
        FileVersion(content, etag: etag, headerFields: dates)
            .answer(exchange, sending: limit, thenFailing: limit == .max ? nil : .cut)
    }

    @Test(arguments: ["\"1\"", nil]) func partIsContinuedFromTheSameResourceOnly(etag: String?) async throws {
        for (location, content) in [("/v2", Self.twin), ("http://other/v1", Self.twin), ("/v1", Self.old)] {
            try await cut { Self.answer($0, "/v1", Self.old, etag: etag, sending: 100_000) }
            let (result, sent) = try await download { Self.answer($0, location, content, etag: etag) }
            let isSame = location == "/v1"
            #expect(try result.get().transfer.resumedBytes == (isSame ? 100_000 : 0))
            #expect(sent.map { $0.headerFields["Range"] } == [nil, isSame ? "bytes=100000-" : nil])
            #expect(try Data(contentsOf: target) == content)
        }
    }

    /// If only a date identifies the version, another query may be another file.
    @Test(arguments: ["\"1\"", nil]) func queryOfALinkCountsBesideADateOnly(etag: String?) async throws {
        try await cut { Self.answer($0, "/v1?token=1", Self.old, etag: etag, sending: 100_000) }
        let (result, _) = try await download { Self.answer($0, "/v1?token=2", Self.old, etag: etag) }
        #expect(try result.get().transfer.resumedBytes == (etag == nil ? 0 : 100_000))
        #expect(try Data(contentsOf: target) == Self.old)
    }

    /// The digest shows whether the bytes belong together.
    @Test func withADigestAnyResourceContinues() async throws {
        try await cut { Self.answer($0, "/v1", Self.old, sending: 100_000) }
        let digest = FileDigest.sha256(Self.old.sha256)
        let (result, _) = try await download(verifying: digest) { Self.answer($0, "http://mirror/v1", Self.old) }
        #expect(try result.get().transfer.resumedBytes == 100_000)
        #expect(try Data(contentsOf: target) == Self.old)
    }

    /// The server names the file, so the part is named after a URL.
    @Test func partInADirectoryIsContinuedAfterARedirect() async throws {
        for limit in [100_000, .max] {
            let server = StubServer { Self.answer($0, "/v1", Self.old, sending: limit) }
            let sending = Sending(Request.stub("file").saved(in: directory.url), over: server.transport)
            let result = try await sending.result()
            let range = server.exchanges.events.last?.request.headerFields["Range"]
            #expect(range == (limit == .max ? "bytes=100000-" : nil))
            guard limit == .max else { continue }
            #expect(try Data(contentsOf: result.get().value) == Self.old)
        }
    }

    @Test func anotherResourceReceivesNoConditionOfTheFile() async throws {
        for (location, content, status) in [("/v1", Self.old, 200), ("/v1", Self.old, 304), ("/v2", Self.twin, 200)] {
            let (result, _) = try await download(existing: .updateIfChanged) { Self.answer($0, location, content) }
            #expect(try result.get().statusCode == status)
            #expect(try Data(contentsOf: target) == content)
        }
    }

    /// The probe and the first segment are redirected to one file, and the other segments to another file.
    @Test func segmentsOfTwoResourcesAreNotJoined() async throws {
        let (old, new) = (FileVersion.seeded(1, byteCount: 2_200_000), FileVersion.seeded(2, byteCount: 2_200_000))
        let asked = Locked(0)
        let server = StubServer { exchange in
            let count = asked.withLock { count in
                if exchange.request.url.path == "/file" { count += 1 }
                return count
            }
            let isOld = exchange.request.url.path == "/file" ? count <= 2 : exchange.request.url.path == "/v1"
            Self.answer(exchange, isOld ? "/v1" : "/v2", isOld ? old : new)
        }
        let download = server.manager(1).downloadInSegments(.stub("file"), to: target, segments: 2)
        _ = try await download.file()
        #expect(try Data(contentsOf: target) == new)
        #expect(try directory.entries == ["target"])
    }

    @Test func segmentsFollowTheirRedirects() async throws {
        let content = FileVersion.seeded(1, byteCount: 2_200_000)
        let server = StubServer { Self.answer($0, "/v1", content) }
        _ = try await server.manager(1).downloadInSegments(.stub("file"), to: target, segments: 2).file()
        #expect(try Data(contentsOf: target) == content)
        let ranges: [String?] = server.exchanges.events.filter { $0.request.url.path == "/v1" }
            .map { $0.request.headerFields["Range"] }
        #expect(ranges.count == 3)
        #expect(Set(ranges) == ["bytes=0-0", "bytes=0-1099999", "bytes=1100000-2199999"])
    }
}

/// Tests parts and records that another process changes: their bytes never become the target.
extension ResumingTests {
    private var partFile: URL { directory.file(Self.part) }

    private func expectThrownAway(_ error: RequestError?) throws {
        #expect(error?.code == .destinationUnwritable)
        #expect(error?.message.contains("another process") == true)
        #expect(try directory.entries == [])
    }

    @Test func partWhoseRecordCannotBeReadStays() async throws {
        try await leavePart()
        // A directory can be opened but not read.
        let record = directory.file(Self.record)
        try FileManager.default.removeItem(at: record)
        try FileManager.default.createDirectory(at: record, withIntermediateDirectories: false)
        let (result, sent) = try await download { FileVersion(Self.old).answer($0) }
        #expect(result.code == .destinationUnwritable && sent.isEmpty)
        #expect(try Data(contentsOf: partFile) == Self.old.prefix(100_000))
    }

    /// The part becomes shorter or longer, with and without later bytes.
    @Test(arguments: [0, 70_000, 150_000], [true, false])
    func plainPartThatIsGivenAnotherLengthIsThrownAway(count: Int, isAtTheEnd: Bool) async throws {
        let (_, sending, exchange) = await hold()
        let first = isAtTheEnd ? 300_000 : 100_000
        FileVersion(Self.old).answer(exchange, sending: first, isLeftOpen: true)
        await look { partBytes() == first }
        #expect(truncate(partFile.path, off_t(count)) == 0)
        if !isAtTheEnd { exchange.send(Self.old.dropFirst(first)) }
        exchange.finish()
        try expectThrownAway(await sending.error())
    }

    @Test(arguments: [0, 1_000_000, 2_000_000, 2_200_000])
    func segmentedPartThatIsTruncatedIsThrownAway(count: Int) async throws {
        let version = FileVersion(FileVersion.seeded(1, byteCount: 2_200_000))
        let gate = EventLog<StubExchange>()
        let server = StubServer { exchange in
            guard exchange.request.headerFields["Range"] == "bytes=1100000-2199999" else {
                return version.answer(exchange)
            }
            gate.record(exchange)
        }
        let download = server.manager(4).downloadInSegments(.stub("file"), to: target, segments: 2)
        let last = await gate.wait()[0]
        await look { download.progress.download.completedBytes == 1_100_000 }
        #expect(truncate(partFile.path, off_t(count)) == 0)
        version.answer(last)
        try expectThrownAway(await #expect(throws: RequestError.self) { try await download.file() })
    }
}

#if canImport(CLibcurl)
    /// Tests downloads with a content coding: RFC 9110, section 8.4.
    @Suite(.timeLimit(.minutes(5))) struct CodedDownloadTests {
        private let directory: TemporaryDirectory
        private let server: TestServer
        private var target: URL { directory.file("a.txt.gz") }
        private static let zipped = Data.zipped
        private static let text = Data(String(repeating: "abc", count: 1_000).utf8)
        // The content is large enough for segments. It is not valid gzip, but nothing decodes it.
        private static let large = FileVersion.seeded(9, byteCount: 5_000_000)

        init() throws {
            directory = try TemporaryDirectory()
            server = try TestServer()
        }

        private func serve(_ body: Data, coding: String = "gzip", fields: [(String, String)] = []) {
            server.respond { _ in
                .resource(body, etag: "\"v1\"", headerFields: [("Content-Encoding", coding)] + fields)
            }
        }

        private func save(_ request: Request<Data>, verifying digest: FileDigest? = nil) async throws
            -> RequestOperation<URL>.Result
        {
            try await Sending(request.saved(to: target, verifying: digest)).result()
        }

        // MARK: Bodies that are stored in their coding

        @Test(arguments: ["gzip", "x-gzip", "GZIP", "br", "zstd", "deflate", "compress", "x-compress", "gzip, gzip"])
        func labelledFileIsKeptAsItIsSent(coding: String) async throws {
            serve(Self.zipped, coding: coding)
            let response = try await save(server.get(), verifying: .sha256(Self.zipped.sha256)).get()
            #expect(try Data(contentsOf: target) == Self.zipped)
            #expect(response.transfer.download.completedBytes == Int64(Self.zipped.count))
            #expect(response.head.expectedBytes == Int64(Self.zipped.count))
            #expect(try await server.takeRequest().value(of: "Accept-Encoding") == "identity")
            #expect(try directory.entries == ["a.txt.gz"])
        }

        @Test func aDecodedFileHasTheDecodedContent() async throws {
            serve(Self.zipped)
            let response = try await save(server.get().decodingFile(), verifying: .sha256(Self.text.sha256)).get()
            #expect(response.head.expectedBytes == nil)
            #expect(try Data(contentsOf: target) == Self.text)
            let asked = try await server.takeRequest().value(of: "Accept-Encoding")
            #expect(asked?.contains("gzip") == true)
        }

        /// The server's digest covers the representation with its coding (RFC 9530, section 2).
        @Test func theServersDigestCoversTheCodedBytes() async throws {
            let digest = "sha-256=:\(Self.zipped.sha256.base64EncodedString()):"
            serve(Self.zipped, fields: [("Repr-Digest", digest)])
            _ = try await save(server.get()).get()
            serve(Self.zipped + Data("more".utf8), fields: [("Repr-Digest", digest)])
            #expect(try await save(server.get()).code == .integrityFailed)
            #expect(try Data(contentsOf: target) == Self.zipped)
        }

        @Test(arguments: ["gzip", "UTF-8", "aws-chunked", "none"])
        func labelledFileIsContinued(coding: String) async throws {
            let (body, fields) = (Self.large, [("Content-Encoding", coding)])
            server.enqueue(
                Reply.resource(body, etag: "\"v1\"", headerFields: fields).performing(
                    .close, at: .responseBody(afterBytes: 2_000_000)))
            server.respond { _ in .resource(body, etag: "\"v1\"", headerFields: fields) }
            #expect(try await save(server.get()).code == .connectionLost)
            let response = try await save(server.get()).get()
            #expect(response.statusCode == 206)
            #expect(try Data(contentsOf: target) == Self.large)
            let ranges: [String?] = server.recordedRequests.map { $0.value(of: "Range") }
            #expect(ranges.count == 2 && ranges[0] == nil && ranges[1]?.hasPrefix("bytes=") == true)
        }

        @Test func labelledFileComesInSegments() async throws {
            serve(Self.large)
            let manager = RequestManager(configuration: .init(transport: .custom(CurlTransport.shared)))
            let download = manager.downloadInSegments(
                server.get(), to: target, segments: 4, verifying: .sha256(Self.large.sha256))
            _ = try await download.file()
            #expect(try Data(contentsOf: target) == Self.large)
            #expect(server.requestCount == 5)
        }

        // MARK: Unknown codings

        /// Values that servers send by mistake, and codings that no client decodes.
        private static let labels = [
            "UTF-8", "utf8", "binary", "none", "aws-chunked", "gzip, klingon", "base64", "7bit", "text/plain",
            "application/octet-stream", "chunked", "identity, UTF-8", "aes128gcm", "klingon", "*", "",
            "gzip, gzip, gzip, gzip, gzip, gzip",
        ]

        /// The request has not asked for the coding, whether it accepts others or none.
        @Test(arguments: labels) func aFileIsStoredWhateverItsCodingIsCalled(coding: String) async throws {
            serve(Self.large, coding: coding)
            let request = server.get()
            let accepting = request.header("Accept-Encoding", "br")
            for request in [request, request.decodingFile(), accepting] {
                let response = try await save(request, verifying: .sha256(Self.large.sha256)).get()
                #expect(response.head.expectedBytes == Int64(Self.large.count))
                #expect(try Data(contentsOf: target) == Self.large)
            }
            let manager = RequestManager(configuration: .init(transport: .custom(CurlTransport.shared)))
            for request in [request, request.decodingFile()] {
                _ = try await manager.downloadInSegments(request, to: target, segments: 2).file()
                #expect(try Data(contentsOf: target) == Self.large)
            }
            #expect(try directory.entries == ["a.txt.gz"])
        }

        @Test(arguments: [
            ("klingon", true), ("gzip, KLINGON;q=0.5", true), ("*", true), ("gzip", false),
            ("gzip, klingon;q=0", false),
        ])
        func codingThatTheCallerNamesIsKeptAsItIsSent(accepted: String, isNamed: Bool) async throws {
            serve(Self.zipped, coding: "klingon")
            let request = server.get().header("Accept-Encoding", accepted)
            let result = try await Sending(request).result()
            if isNamed { #expect(try result.get().value == Self.zipped) } else { #expect(result.code == .badResponse) }
            _ = try await save(request).get()
            #expect(try Data(contentsOf: target) == Self.zipped)
        }

        // MARK: URLSession

        /// URLSession decodes every coding that it requested, so the file would contain other bytes than the
        /// server's.
        @Test func urlSessionRefusesACodingThatItWouldDecode() async throws {
            serve(Self.zipped)
            let error = try await Sending(server.get().saved(to: target), over: URLSessionTransport.shared).error()
            #expect(error.code == .badResponse, "\(error)")
            #expect(try directory.entries == [])
            let response = try await Sending(server.get(), over: URLSessionTransport.shared).response()
            #expect(response.value == Self.text)
        }
    }
#endif
