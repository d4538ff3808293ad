import Foundation
import Testing

@testable import Convoy

/// Tests `existing: .updateIfChanged`: the requests and their effects on the file.
@Suite(.timeLimit(.minutes(5))) struct UpdateIfChangedTests {
    private let directory: TemporaryDirectory
    private var target: URL { directory.file("a") }
    private static let version = ".a.convoy-version"
    private static let fields: HeaderFields = [
        "Last-Modified": "Sat, 21 Nov 2026 10:00:00 GMT", "Date": "Sat, 21 Nov 2026 12:00:00 GMT",
    ]
    private static let old = FileVersion(FileVersion.seeded(1, byteCount: 30_000), headerFields: fields)
    private static let new = FileVersion(FileVersion.seeded(2, byteCount: 30_000), etag: "\"v2\"")

    init() throws { directory = try TemporaryDirectory() }

    /// Responds with 304 if the request names this version, otherwise with the file.
    private func answer(_ version: FileVersion, _ exchange: StubExchange) {
        let asked = exchange.request.headerFields
        let isSame =
            asked["If-None-Match"].map { $0 == version.headerFields["ETag"] }
            ?? asked["If-Modified-Since"].map { $0 == version.headerFields["Last-Modified"] } ?? false
        if isSame { exchange.answer(304) } else { version.answer(exchange) }
    }

    private func fetch(
        _ version: FileVersion, _ request: Request<Data> = .stub("a"), verifying digest: FileDigest? = nil
    ) async throws -> (Response<URL>, [HeaderFields]) {
        let server = StubServer { answer(version, $0) }
        let request = request.saved(to: target, verifying: digest, existing: .updateIfChanged)
        let response = try await Sending(request, over: server.transport).response()
        return (response, server.exchanges.events.map(\.request.headerFields))
    }

    private func expectFile(_ version: FileVersion, sourceLocation: SourceLocation = #_sourceLocation) throws {
        #expect(try Data(contentsOf: target) == version.content, sourceLocation: sourceLocation)
        #expect(try directory.entries == [Self.version, "a"], sourceLocation: sourceLocation)
    }

    @Test func tagAndDateAreSentAndTheSameVersionIsNotFetchedAgain() async throws {
        let (first, asked) = try await fetch(Self.old)
        #expect(first.statusCode == 200)
        #expect(asked.allSatisfy { !$0.contains("If-None-Match") && !$0.contains("If-Modified-Since") })
        try expectFile(Self.old)
        let (second, again) = try await fetch(Self.old)
        #expect(second.statusCode == 304)
        #expect(second.value == target)
        #expect(second.transfer.download.completedBytes == 0)
        #expect(again.map { $0["If-None-Match"] } == ["\"v1\""])
        #expect(again.map { $0["If-Modified-Since"] } == ["Sat, 21 Nov 2026 10:00:00 GMT"])
        try expectFile(Self.old)
    }

    @Test func fileGetsTheTimeOfTheServer() async throws {
        _ = try await fetch(Self.old)
        let changed = try FileManager.default.attributesOfItem(atPath: target.path)[.modificationDate] as? Date
        #expect(
            changed
                == HTTPDate("Sat, 21 Nov 2026 10:00:00 GMT", now: Date()).map {
                    Date(timeIntervalSince1970: TimeInterval($0.secondsSince1970))
                })
    }

    @Test func otherVersionReplacesTheFile() async throws {
        _ = try await fetch(Self.old)
        #expect(try await fetch(Self.new).0.statusCode == 200)
        try expectFile(Self.new)
        #expect(try await fetch(Self.new).1.map { $0["If-None-Match"] } == ["\"v2\""])
        try expectFile(Self.new)
    }

    /// The file's recorded version is not used if the file was not downloaded, has changed, or has another URL.
    ///
    /// The same applies to a damaged record, and to a request with a condition of the caller.
    @Test(arguments: ["other way", "written to", "touched", "other URL", "damaged", "own condition"])
    func fileOfUnknownVersionIsFetched(kind: String) async throws {
        var request = Request.stub("a")
        if kind == "other way" {
            try Data("something else".utf8).write(to: target)
        } else {
            _ = try await fetch(Self.old)
        }
        switch kind {
        case "written to":
            let handle = try FileHandle(forWritingTo: target)
            try handle.write(contentsOf: Data("edited".utf8))
            try handle.close()
        case "touched":
            try FileManager.default.setAttributes([.modificationDate: Date()], ofItemAtPath: target.path)
        case "other URL": request = .stub("b")
        case "damaged": try Data("{}".utf8).write(to: directory.file(Self.version))
        case "own condition": request = request.header("If-None-Match", "\"of the caller\"")
        default: break
        }
        let (response, asked) = try await fetch(Self.old, request)
        #expect(response.statusCode == 200)
        #expect(asked.allSatisfy { $0["If-None-Match"] != "\"v1\"" })
        #expect(try Data(contentsOf: target) == Self.old.content)
    }

    @Test func fileThatHasAnotherDigestIsFetched() async throws {
        _ = try await fetch(Self.old)
        let (right, wrong) = (FileDigest.sha256(Self.old.content.sha256), FileDigest.sha256(Self.new.content.sha256))
        #expect(try await fetch(Self.old, verifying: right).0.statusCode == 304)
        #expect(try await fetch(Self.new, verifying: wrong).0.statusCode == 200)
        try expectFile(Self.new)
    }

    @Test(arguments: ["*", "v1", "\"v1", "W/v1", "w/\"v1\"", "\"a\", \"b\"", ""])
    func anInvalidEntityTagIsNotSent(tag: String) async throws {
        let version = FileVersion(Self.old.content, etag: tag)
        _ = try await fetch(version)
        let (response, asked) = try await fetch(version)
        #expect(response.statusCode == 200)
        #expect(asked.allSatisfy { !$0.contains("If-None-Match") })
        #expect(try directory.entries == ["a"])
    }

    /// A 304 may have an `ETag`.
    ///
    /// If the tag is strong and its opaque value differs from that of the file's tag, the 304 does not confirm the
    /// file.
    @Test(arguments: [
        ("\"v1\"", "\"v1\"", true), ("\"v1\"", "W/\"v1\"", true), ("W/\"v1\"", "\"v1\"", true), ("\"v1\"", "*", true),
        ("\"v1\"", "\"v2\"", false), ("W/\"v1\"", "\"v2\"", false),
    ])
    func unchangedAnswerIsAboutTheVersionThatWasAskedBy(kept: String, named: String, isSame: Bool) async throws {
        let version = FileVersion(Self.old.content, etag: kept)
        _ = try await fetch(version)
        let server = StubServer { $0.answer(304, headerFields: ["ETag": named]) }
        let request = Request.stub("a").saved(to: target, existing: .updateIfChanged)
        let result = try await Sending(request, over: server.transport).result()
        #expect(result.code == (isSame ? nil : .badResponse))
        #expect(try Data(contentsOf: target) == Self.old.content)
        #expect(try await fetch(version).0.statusCode == (isSame ? 304 : 200))
        try expectFile(version)
    }

    /// Values that another program wrote beside the file are not sent.
    @Test(arguments: ["tag", "date", "name"]) func anImpossibleVersionIsIgnored(kind: String) async throws {
        _ = try await fetch(Self.old)
        try Data("other".utf8).write(to: directory.file("b"))
        let file = SidecarFile<KeptVersion>(path: directory.file(Self.version).path)
        var version = try #require(try file.read())
        switch kind {
        case "tag": version.entityTag = "\"v1\"\r\nX-Inject: yes"
        case "date": version.lastModified = "Sat, 21 Nov 2026 10:00:00 GMT\r\nX-Inject: yes"
        default: version.name = "../\(directory.url.lastPathComponent)/a"
        }
        try file.write(version, synchronized: false)
        let (response, asked) = try await fetch(Self.old)
        #expect(response.statusCode == 200)
        #expect(asked.allSatisfy { !$0.contains("If-None-Match") && !$0.contains("If-Modified-Since") })
    }

    /// A date that is not older than the response may belong to two versions.
    @Test func aWeakDateAloneIsNotSent() async throws {
        var version = FileVersion(Self.old.content, etag: nil, headerFields: Self.fields)
        version.headerFields["Last-Modified"] = version.headerFields["Date"]
        _ = try await fetch(version)
        let (response, asked) = try await fetch(version)
        #expect(response.statusCode == 200)
        #expect(asked.allSatisfy { !$0.contains("If-Modified-Since") })
        #expect(try directory.entries == ["a"])
    }

    /// The file has one version, and the part has the next version.
    ///
    /// One request has the conditions for both.
    @Test func aTruncatedUpdateIsContinued() async throws {
        _ = try await fetch(Self.old)
        let cut = StubServer { exchange in Self.new.answer(exchange, sending: 10_000, thenFailing: .cut) }
        let request = Request.stub("a").saved(to: target, existing: .updateIfChanged)
        #expect(try await Sending(request, over: cut.transport).error().code == .connectionLost)
        #expect(try Data(contentsOf: target) == Self.old.content)
        // The server has the old version of the file again. The part of the new version stays.
        #expect(try await fetch(Self.old).0.statusCode == 304)
        let (response, asked) = try await fetch(Self.new)
        #expect(asked.map { $0["If-None-Match"] } == ["\"v1\""])
        #expect(asked.map { $0["Range"] } == ["bytes=10000-"])
        #expect(response.transfer.resumedBytes == 10_000)
        try expectFile(Self.new)
    }

    @Test func namesThatTheServerGivesAreUpdatedToo() async throws {
        var version = Self.old
        version.headerFields["Content-Disposition"] = "attachment; filename=b.txt"
        let request = Request.stub("a").saved(in: directory.url, existing: .updateIfChanged)
        for status in [200, 304] {
            let server = StubServer { [version] in answer(version, $0) }
            let response = try await Sending(request, over: server.transport).response()
            #expect(response.statusCode == status)
            #expect(response.value.lastPathComponent == "b.txt")
        }
        #expect(try directory.entries.count == 2)
    }

    @Test func segmentsAskToo() async throws {
        let version = FileVersion(FileVersion.seeded(3, byteCount: 2_200_000), headerFields: Self.fields)
        for status in [206, 304] {
            let server = StubServer { answer(version, $0) }
            let download = server.manager().downloadInSegments(
                .stub("a"), to: target, segments: 2, existing: .updateIfChanged)
            #expect(try await download.response().statusCode == status)
            #expect(server.exchanges.count == (status == 304 ? 1 : 3))
            try expectFile(version)
        }
    }
}
