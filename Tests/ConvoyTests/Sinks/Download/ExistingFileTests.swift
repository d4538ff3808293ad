import Foundation
import Testing

@testable import Convoy

/// Tests existing files, and names of files that the server proposes.
@Suite(.timeLimit(.minutes(5))) struct ExistingFileTests {
    private let directory: TemporaryDirectory
    private var target: URL { directory.file("a.txt") }
    private let server = StubServer { FileVersion(Data("new".utf8)).answer($0) }

    init() throws { directory = try TemporaryDirectory() }

    private func send(_ request: Request<URL>) async throws -> RequestOperation<URL>.Result {
        try await Sending(request, over: server.transport).result()
    }

    private func content(_ name: String) throws -> String {
        String(decoding: try Data(contentsOf: directory.file(name)), as: UTF8.self)
    }

    @Test(arguments: [ExistingFile.fail, .skip]) func anExistingFileNeedsNoRequest(existing: ExistingFile) async throws
    {
        try Data("old".utf8).write(to: target)
        let result = try await send(Request.stub("x").saved(to: target, existing: existing))
        if existing == .fail {
            #expect(result.code == .destinationExists)
        } else {
            let response = try result.get()
            #expect(response.value == target && response.statusCode == 304 && response.attempts.isEmpty)
        }
        #expect(server.exchanges.count == 0)
        #expect(try content("a.txt") == "old")
        #expect(try directory.entries == ["a.txt"])
    }

    @Test func renameUsesTheNextFreeName() async throws {
        for name in ["a.txt", "a-1.txt"] { try Data("old".utf8).write(to: directory.file(name)) }
        let result = try await send(Request.stub("x").saved(to: target, existing: .rename))
        #expect(try result.get().value.lastPathComponent == "a-2.txt")
        #expect(try content("a-2.txt") == "new")
        #expect(try directory.entries == ["a-1.txt", "a-2.txt", "a.txt"])
    }

    @Test func renamesAtTheSameTimeTakeNamesOfTheirOwn() async throws {
        let manager = server.manager()
        let batch = manager.batch((0..<20).map { _ in Request.stub("x").saved(to: target, existing: .rename) })
        let names = await batch.results.compactMap { try? $0.get().value.lastPathComponent }
        #expect(Set(names).count == 20)
        #expect(try directory.entries.count == 20)
    }

    private func mode(_ name: String = "a.txt") throws -> Int {
        try #require(
            FileManager.default.attributesOfItem(atPath: directory.file(name).path)[.posixPermissions] as? Int)
    }

    private func leaveFile(mode: Int) throws {
        try Data("old".utf8).write(to: target)
        #expect(chmod(target.path, mode_t(mode)) == 0)
    }

    @Test(arguments: [0o600, 0o640, 0o644, 0o664, 0o666, 0o755, 0o700, 0o444, 0o400, 0o711, 0o000])
    func aReplacedFileKeepsItsMode(mode: Int) async throws {
        let digest = FileDigest.sha256(Data("new".utf8).sha256)
        for existing in [ExistingFile.overwrite, .updateIfChanged, .skip] {
            // A file of another digest is replaced.
            let digest = existing == .skip && mode & 0o400 != 0 ? digest : nil
            guard existing != .skip || digest != nil else { continue }
            try leaveFile(mode: mode)
            _ = try await send(Request.stub("x").saved(to: target, verifying: digest, existing: existing)).get()
            #expect(try self.mode() == mode)
            #expect(chmod(target.path, 0o600) == 0)
            #expect(try content("a.txt") == "new")
            try FileManager.default.removeItem(at: target)
        }
        try leaveFile(mode: mode)
        _ = try await server.manager().downloadInSegments(.stub("x"), to: target).file()
        #expect(try self.mode() == mode)
    }

    @Test func thePartIsNoMoreAccessibleThanTheFileItReplaces() async throws {
        try leaveFile(mode: 0o400)
        let held = StubServer.held()
        let sending = Sending(Request.stub("x").saved(to: target), over: held.transport)
        let exchange = await held.exchanges.wait()[0]
        #expect(try mode(".a.txt.convoy-part") == 0o600)
        exchange.answer(200, body: Data("new".utf8))
        _ = try await sending.response()
        #expect(try mode() == 0o400)
    }

    /// A server must not choose the content of a program that runs as its owner, and the caller's own permissions limit
    /// those of the replaced file.
    @Test(
        arguments: [
            (0o4755, 0o666, 0o755), (0o2755, 0o666, 0o755), (0o1755, 0o666, 0o755), (0o6711, 0o666, 0o711),
            (0o664, 0o600, 0o600),
        ] as [(Int, UInt16, Int)])
    func aReplacedFileLosesItsSpecialBits(mode: Int, permissions: UInt16, expected: Int) async throws {
        try leaveFile(mode: mode)
        _ = try await send(Request.stub("x").saved(to: target, permissions: permissions)).get()
        #expect(try self.mode() == expected)
    }

    /// A link is replaced by a new file; the file that it names stays as it is.
    @Test func aReplacedLinkHasNoModeToKeep() async throws {
        try Data("old".utf8).write(to: directory.file("other"))
        #expect(chmod(directory.file("other").path, 0o600) == 0)
        #expect(symlink("other", target.path) == 0)
        _ = try await send(Request.stub("x").saved(to: target)).get()
        _ = try await send(Request.stub("x").saved(to: directory.file("new"))).get()
        #expect(try mode() == mode("new"))
        #expect(try mode("other") == 0o600)
        #expect(try content("other") == "old")
    }

    /// Only a privileged process may keep the owner.
    @Test(.enabled(if: geteuid() == 0)) func aReplacedFileKeepsItsOwnerAndGroup() async throws {
        try leaveFile(mode: 0o640)
        #expect(chown(target.path, 1_234, 4_321) == 0)
        _ = try await send(Request.stub("x").saved(to: target)).get()
        var status = stat()
        #expect(stat(target.path, &status) == 0)
        #expect((status.st_uid, status.st_gid) == (1_234, 4_321))
        #expect(try mode() == 0o640)
    }

    /// The link leads nowhere, to itself, or to a directory.
    @Test(arguments: ["/nowhere/x", "a.txt", "."]) func skippingABrokenLinkIsAnError(destination: String) async throws {
        #expect(symlink(destination, target.path) == 0)
        #expect(try await send(Request.stub("x").saved(to: target, existing: .skip)).code == .destinationExists)
        #expect(server.exchanges.count == 0)
        #expect(try directory.entries == ["a.txt"])
    }

    @Test(arguments: ["directory", "link", "file", "file with .fail"])
    func aFileThatAppearsMeanwhileStays(kind: String) async throws {
        let held = StubServer.held()
        let existing = kind == "file with .fail" ? ExistingFile.fail : .skip
        let sending = Sending(Request.stub("x").saved(to: target, existing: existing), over: held.transport)
        let exchange = await held.exchanges.wait()[0]
        switch kind {
        case "directory": try FileManager.default.createDirectory(at: target, withIntermediateDirectories: false)
        case "link": #expect(symlink("/nowhere/x", target.path) == 0)
        default: try Data("old".utf8).write(to: target)
        }
        exchange.answer(200, body: Data("new".utf8))
        #expect(try await sending.result().code == (kind == "file" ? nil : .destinationExists))
        #expect(try directory.entries == ["a.txt"])
        if kind.hasPrefix("file") { #expect(try content("a.txt") == "old") }
    }

    @Test func skipWithADigestVerifiesTheFile() async throws {
        let digest = FileDigest.sha256(Data("new".utf8).sha256)
        try Data("old".utf8).write(to: target)
        let request = Request.stub("x").saved(to: target, verifying: digest, existing: .skip)
        #expect(try await send(request).get().statusCode == 200)
        #expect(try content("a.txt") == "new")
        #expect(try await send(request).get().statusCode == 304)
        #expect(server.exchanges.count == 1)
    }

    @Test(arguments: [
        ("attachment; filename=\"../../b.txt\"", "b.txt"), ("attachment; filename=/etc/passwd", "passwd"),
        ("attachment; filename=\".bashrc\"", "bashrc"), ("attachment; filename*=UTF-8''%e2%82%ac.txt", "€.txt"),
        ("attachment", "x"), ("attachment; filename=\"..\"", "download"),
    ])
    func serverNamesAFileInTheDirectory(field: String, name: String) async throws {
        let server = StubServer { exchange in
            FileVersion(Data("new".utf8), headerFields: ["Content-Disposition": field]).answer(exchange)
        }
        let request = Request.stub("x").saved(in: directory.url)
        let response = try await Sending(request, over: server.transport).response()
        #expect(response.value.lastPathComponent == name)
        #expect(try directory.entries == [name])
        let again = try await Sending(request, over: server.transport).response()
        #expect(again.value.lastPathComponent == FileName.numbered(name, 1))
    }

    // The connection is lost before the file gets its name. The second response has the last bytes and proposes no
    // name.
    @Test func proposedNameIsKept() async throws {
        let fields: HeaderFields = ["Content-Disposition": "attachment; filename=report.pdf"]
        let version = FileVersion(FileVersion.seeded(3, byteCount: 5_000), headerFields: fields)
        let cut = StubServer { version.answer($0, thenFailing: .cut) }
        let request = Request.stub("x").saved(in: directory.url)
        #expect(try await Sending(request, over: cut.transport).error().code == .connectionLost)
        let server = StubServer { exchange in
            FileVersion(version.content).answer(exchange)
        }
        let response = try await Sending(request, over: server.transport).response()
        #expect(response.statusCode == 206)
        #expect(response.value.lastPathComponent == "report.pdf")
    }

    /// The record beside a part may come from a foreign archive.
    @Test(arguments: ["../precious", "../new", ".hidden"])
    func recordLeadsNowhereElse(name: String) async throws {
        let out = directory.file("out")
        try FileManager.default.createDirectory(at: out, withIntermediateDirectories: false)
        try Data("precious".utf8).write(to: directory.file("precious"))
        let version = FileVersion(FileVersion.seeded(3, byteCount: 5_000))
        let request = Request.stub("x").saved(in: out, existing: .overwrite)
        let cut = StubServer { version.answer($0, sending: 1_000, thenFailing: .cut) }
        #expect(try await Sending(request, over: cut.transport).error().code == .connectionLost)
        let left = try FileManager.default.contentsOfDirectory(atPath: out.path)
        let file = SidecarFile<ResumeRecord>(
            path: out.appending(path: try #require(left.first { $0.hasSuffix(".convoy-resume") })).path)
        var record = try #require(try file.read())
        record.name = name
        try file.write(record, synchronized: false)
        let server = StubServer { version.answer($0) }
        let response = try await Sending(request, over: server.transport).response()
        #expect(response.value.lastPathComponent == "x")
        #expect(try FileManager.default.contentsOfDirectory(atPath: out.path) == ["x"])
        #expect(try directory.entries == ["out", "precious"])
        #expect(try content("precious") == "precious")
    }

    /// A process that was killed at the end of a download leaves the record, the second name of the file, or an empty
    /// part.
    @Test(arguments: [ExistingFile.skip, .fail, .rename], ["record", "other name", "empty", "locked", "another's"])
    func filesThatAKilledProcessLeftAreRemoved(existing: ExistingFile, kind: String) async throws {
        try Data("whole".utf8).write(to: target)
        let (part, record) = (directory.file(".a.txt.convoy-part"), directory.file(".a.txt.convoy-resume"))
        try Data("record".utf8).write(to: record)
        var lock: PartFile?
        switch kind {
        case "other name": #expect(link(target.path, part.path) == 0)
        case "empty": try Data().write(to: part)
        case "locked": lock = try PartFile.open(part.path, permissions: 0o600)
        case "another's": try Data("partial".utf8).write(to: part)
        default: break
        }
        _ = try await send(Request.stub("x").saved(to: target, existing: existing))
        let stays = ["locked", "another's"].contains(kind)
        let left = stays ? [part.lastPathComponent, record.lastPathComponent] : []
        #expect(try directory.entries == left + (existing == .rename ? ["a-1.txt"] : []) + ["a.txt"])
        #expect(try content("a.txt") == "whole")
        lock?.close()
    }

    @Test func headOfAFileCannotBeSaved() {
        #expect(Request<Data>.stub("x").saved(to: target).defect == nil)
        #expect(
            Request<Data>(core: RequestCore(method: .head, url: URL(string: "http://stub/x"))) { body, _ in body.data }
                .saved(to: target).defect != nil)
    }

    private func send(_ status: Int, to request: Request<URL>) async throws -> RequestOperation<URL>.Result {
        try await Sending(request, over: StubServer { $0.answer(status) }.transport).result()
    }

    private let asking = Request.stub("x").header("If-None-Match", "\"v1\"").acceptableStatusCodes(.codes([200, 304]))

    @Test(arguments: ExistingFile.allCases.filter { ![.skip, .fail].contains($0) })
    func unchangedFileIsKept(existing: ExistingFile) async throws {
        try Data("old".utf8).write(to: target)
        let response = try await send(304, to: asking.saved(to: target, existing: existing)).get()
        #expect(response.statusCode == 304)
        #expect(response.value == target)
        try expectOld()
        // A 304 for a missing file is an error.
        try FileManager.default.removeItem(at: target)
        #expect(try await send(304, to: asking.saved(to: target)).code == .badResponse)
        #expect(try directory.entries == [])
    }

    private func expectOld() throws {
        #expect(try directory.entries == ["a.txt"])
        #expect(try Data(contentsOf: target) == Data("old".utf8))
    }

    @Test func unchangedFileHasItsDigest() async throws {
        try Data("old".utf8).write(to: target)
        let (right, wrong) = (FileDigest.sha256(Data("old".utf8).sha256), FileDigest.sha256(Data("new".utf8).sha256))
        #expect(try await send(304, to: asking.saved(to: target, verifying: right)).code == nil)
        #expect(try await send(304, to: asking.saved(to: target, verifying: wrong)).code == .integrityFailed)
        try expectOld()
    }

    @Test(arguments: [204, 205]) func answerWithoutContentIsAnErrorAndKeepsTheFile(status: Int) async throws {
        try Data("old".utf8).write(to: target)
        #expect(try await send(status, to: Request.stub("x").saved(to: target)).code == .badResponse)
        try expectOld()
    }
}

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

    private func fetch(
        _ version: FileVersion, _ request: Request<Data> = .stub("a"), verifying digest: FileDigest? = nil
    ) async throws -> (Response<URL>, [HeaderFields]) {
        let server = StubServer { version.answer($0) }
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
        // The file has the time of the server.
        let changed = try FileManager.default.attributesOfItem(atPath: target.path)[.modificationDate] as? Date
        #expect(changed == Date(timeIntervalSince1970: 1_795_255_200))
        // Another version replaces the file.
        #expect(try await fetch(Self.new).0.statusCode == 200)
        try expectFile(Self.new)
        #expect(try await fetch(Self.new).1.map { $0["If-None-Match"] } == ["\"v2\""])
        try expectFile(Self.new)
    }

    // The file's recorded version is not used if the file was not downloaded, has changed, or has another URL. The same
    // applies to a damaged record, and to a request with a condition of the caller.
    @Test(arguments: ["other way", "written to", "touched", "other URL", "damaged", "own condition"])
    func fileOfUnknownVersionIsFetched(kind: String) async throws {
        var request = Request.stub("a")
        if kind != "other way" { _ = try await fetch(Self.old) }
        switch kind {
        case "other way": try Data("something else".utf8).write(to: target)
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

    /// A date that is not older than the response may belong to two versions.
    @Test(arguments: ["*", "v1", "\"v1", "W/v1", "w/\"v1\"", "\"a\", \"b\"", "", nil])
    func anInvalidValidatorIsNotSent(tag: String?) async throws {
        var version = FileVersion(Self.old.content, etag: tag)
        if tag == nil { version.headerFields["Last-Modified"] = "Sat, 21 Nov 2026 12:00:00 GMT" }
        version.headerFields["Date"] = "Sat, 21 Nov 2026 12:00:00 GMT"
        _ = try await fetch(version)
        let (response, asked) = try await fetch(version)
        #expect(response.statusCode == 200)
        #expect(asked.allSatisfy { !$0.contains("If-None-Match") && !$0.contains("If-Modified-Since") })
        #expect(try directory.entries == ["a"])
    }

    // A 304 may have an `ETag`. If the tag is strong and its opaque value differs from that of the file's tag, the 304
    // does not confirm the file.
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

    // The file has one version, and the part has the next version. One request has the conditions for both.
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
            let server = StubServer { [version] in version.answer($0) }
            let response = try await Sending(request, over: server.transport).response()
            #expect(response.statusCode == status)
            #expect(response.value.lastPathComponent == "b.txt")
        }
        #expect(try directory.entries.count == 2)
    }

    @Test func segmentsAskToo() async throws {
        let version = FileVersion(FileVersion.seeded(3, byteCount: 2_200_000), headerFields: Self.fields)
        for status in [206, 304] {
            let server = StubServer { version.answer($0) }
            let download = server.manager().downloadInSegments(
                .stub("a"), to: target, segments: 2, existing: .updateIfChanged)
            #expect(try await download.response().statusCode == status)
            #expect(server.exchanges.count == (status == 304 ? 1 : 3))
            try expectFile(version)
        }
    }
}
