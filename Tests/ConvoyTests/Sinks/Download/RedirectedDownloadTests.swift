import Foundation
import Testing

@testable import Convoy

/// Tests that a part is continued only from the resource of its bytes, wherever redirects lead.
@Suite(.timeLimit(.minutes(5))) struct RedirectedDownloadTests {
    private let directory: TemporaryDirectory
    private var target: URL { directory.file("target") }
    private static let fields: HeaderFields = [
        "Last-Modified": "Sat, 21 Nov 2026 10:00:00 GMT", "Date": "Sat, 21 Nov 2026 12:00:00 GMT",
    ]
    /// Two files with the same validators and the same length.
    private static let old = FileVersion.seeded(1, byteCount: 30_000)
    private static let new = FileVersion.seeded(2, byteCount: 30_000)

    init() throws { directory = try TemporaryDirectory() }

    /// Redirects `/file` to another URL, which has the content.
    private static func answer(
        _ exchange: StubExchange, _ location: String, _ content: Data, etag: String? = "\"1\"",
        sending limit: Int = .max
    ) {
        guard exchange.request.url.path != "/file" else {
            return exchange.answer(302, headerFields: ["Location": location])
        }
        let version = FileVersion(content, etag: etag, headerFields: fields)
        let asked = exchange.request.headerFields
        let isSame =
            asked["If-None-Match"].map { $0 == etag }
            ?? asked["If-Modified-Since"].map { $0 == fields["Last-Modified"] } ?? false
        if isSame { return exchange.answer(304) }
        version.answer(exchange, sending: limit, thenFailing: limit == .max ? nil : .cut)
    }

    private func download(
        existing: ExistingFile = .overwrite, verifying digest: FileDigest? = nil,
        _ answer: @escaping @Sendable (StubExchange) -> Void
    ) async throws -> (result: RequestOperation<URL>.Result, asked: [HeaderFields]) {
        let server = StubServer(answer: answer)
        let request = Request.stub("file").saved(to: target, verifying: digest, existing: existing)
        let result = try await Sending(request, over: server.transport).result()
        return (result, server.exchanges.events.map(\.request.headerFields))
    }

    @Test(arguments: ["\"1\"", nil]) func partIsContinuedFromTheSameResourceOnly(etag: String?) async throws {
        for (location, content) in [("/v2", Self.new), ("http://other/v1", Self.new), ("/v1", Self.old)] {
            let (cut, _) = try await download { Self.answer($0, "/v1", Self.old, etag: etag, sending: 10_000) }
            #expect(cut.code == .connectionLost)
            let (result, asked) = try await download { Self.answer($0, location, content, etag: etag) }
            let isSame = location == "/v1"
            #expect(try result.get().transfer.resumedBytes == (isSame ? 10_000 : 0))
            #expect(asked.map { $0["Range"] } == [nil, isSame ? "bytes=10000-" : nil])
            #expect(try Data(contentsOf: target) == content)
        }
    }

    /// Signed links change their query each time.
    ///
    /// If only a date identifies the version, another query may be another file.
    @Test(arguments: ["\"1\"", nil]) func queryOfALinkCountsBesideADateOnly(etag: String?) async throws {
        let (cut, _) = try await download { Self.answer($0, "/v1?token=1", Self.old, etag: etag, sending: 10_000) }
        #expect(cut.code == .connectionLost)
        let (result, _) = try await download { Self.answer($0, "/v1?token=2", Self.old, etag: etag) }
        #expect(try result.get().transfer.resumedBytes == (etag == nil ? 0 : 10_000))
        #expect(try Data(contentsOf: target) == Self.old)
    }

    /// The digest shows whether the bytes belong together.
    @Test func withADigestAnyResourceContinues() async throws {
        let (cut, _) = try await download { Self.answer($0, "/v1", Self.old, sending: 10_000) }
        #expect(cut.code == .connectionLost)
        let digest = FileDigest.sha256(Self.old.sha256)
        let (result, _) = try await download(verifying: digest) { Self.answer($0, "http://mirror/v1", Self.old) }
        #expect(try result.get().transfer.resumedBytes == 10_000)
        #expect(try Data(contentsOf: target) == Self.old)
    }

    @Test func anotherResourceReceivesNoConditionOfTheFile() async throws {
        for (location, content, status) in [("/v1", Self.old, 200), ("/v1", Self.old, 304), ("/v2", Self.new, 200)] {
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
        let ranges = server.exchanges.events.filter { $0.request.url.path == "/v1" }
            .map { $0.request.headerFields["Range"] }
        #expect(ranges.count == 3)
        #expect(Set(ranges) == ["bytes=0-0", "bytes=0-1099999", "bytes=1100000-2199999"])
    }
}
