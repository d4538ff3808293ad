import Convoy
import Foundation
import Testing

/// A change of the server between two runs; all combinations of its properties are tested.
struct ServerChange: Sendable, CustomStringConvertible {
    enum Validator: String, CaseIterable { case kept, dropped, weak, changed }
    /// The new length, compared with the old length and with that of the part.
    enum Length: String, CaseIterable { case same, shorter, asThePart, belowThePart, longer }
    /// The server's response to a range request, unless `If-Range` makes the server send the complete file.
    enum Answer: Int, CaseIterable {
        case whole = 200
        case range = 206
        case refusal = 416
    }

    let hasDate: Bool
    let validator: Validator
    let honoursIfRange: Bool
    let length: Length
    let answer: Answer

    static let all = (0..<240).map { number in
        ServerChange(
            hasDate: number >= 120, validator: Validator.allCases[number / 30 % 4],
            honoursIfRange: number / 15 % 2 == 0,
            length: Length.allCases[number / 3 % 5], answer: Answer.allCases[number % 3])
    }

    // The cases in which a server ignores `If-Range` and sends a range, and a fifth of all cases. A long run has all
    // cases.
    static let most = all.enumerated().filter { index, change in
        LongRuns.areWanted || !change.honoursIfRange && change.answer == .range || index % 5 == 0
    }.map(\.element)

    /// Fewer cases, because each fetches large files.
    static let some = most.filter { LongRuns.areWanted || !$0.hasDate || $0.validator == .dropped }

    var description: String {
        "\(hasDate ? "date" : "tag") \(validator), If-Range \(honoursIfRange ? "honoured" : "ignored"), \(length), "
            + "\(answer.rawValue)"
    }

    var oldFields: HeaderFields { fields(.kept) }
    var newFields: HeaderFields { fields(validator) }

    // The content after the change; nil if only a digest could reveal the change. An unchanged strong validator with an
    // unchanged length means the same bytes. In all other cases the bytes differ. Under an unchanged validator, only a
    // known length reveals the change of the length.
    func content(old: Data, other: Data, part: Int, isLengthKnown: Bool) -> Data? {
        let count = byteCount(old: old.count, part: part)
        guard validator == .kept else { return other.prefix(count) }
        if count == old.count { return old }
        return isLengthKnown ? other.prefix(count) : nil
    }

    private func byteCount(old: Int, part: Int) -> Int {
        switch length {
        case .same: old
        case .shorter: (part + old) / 2
        case .asThePart: part
        case .belowThePart: part / 2
        case .longer: old + old / 2
        }
    }

    private func fields(_ validator: Validator) -> HeaderFields {
        var fields: HeaderFields = ["Date": "Sat, 21 Nov 2026 12:00:00 GMT"]
        switch (validator, hasDate) {
        case (.kept, false): fields["ETag"] = "\"v1\""
        case (.kept, true): fields["Last-Modified"] = "Sat, 21 Nov 2026 10:00:00 GMT"
        case (.changed, false): fields["ETag"] = "\"v2\""
        case (.changed, true): fields["Last-Modified"] = "Sat, 21 Nov 2026 11:00:00 GMT"
        case (.weak, false): fields["ETag"] = "W/\"v1\""
        case (.weak, true): fields["Last-Modified"] = "Sat, 21 Nov 2026 12:00:00 GMT"
        case (.dropped, _): break
        }
        return fields
    }

    /// Responds like the server after the change.
    func answer(_ exchange: StubExchange, with content: Data) {
        let version = FileVersion(content, etag: nil, headerFields: newFields)
        let request = exchange.request.headerFields
        let field = hasDate ? "Last-Modified" : "ETag"
        let isOther = honoursIfRange && request["If-Range"].map { $0 != newFields[field] } ?? false
        guard let ends = request["Range"].flatMap(FileVersion.ends), !isOther, answer != .whole else {
            return version.send(exchange, 200, version.headerFields, content)
        }
        var fields = version.headerFields
        guard answer == .range, ends.0 < content.count else {
            fields["Content-Range"] = "bytes */\(content.count)"
            return version.send(exchange, 416, fields, Data("beyond".utf8))
        }
        let range = ends.0..<min(ends.1 ?? .max, content.count - 1) + 1
        fields["Content-Range"] = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(content.count)"
        version.send(exchange, 206, fields, content[range])
    }
}

/// Tests a server that changes between two runs, or within one: no result mixes two files.
@Suite(.serialized, .timeLimit(.minutes(4))) struct ServerChangeTests {
    private let directory: TemporaryDirectory
    private var target: URL { directory.file("target") }

    init() throws { directory = try TemporaryDirectory() }

    /// The lengths of the part when the second run begins; the file has 9,000 bytes.
    @Test(arguments: [4_000, 9_000], [true, false])
    func plainDownloadNeverJoinsTwoVersions(partBytes: Int, isLengthKnown: Bool) async throws {
        let (old, other) = (FileVersion.seeded(1, byteCount: 9_000), FileVersion.seeded(2, byteCount: 13_500))
        for change in partBytes == 4_000 && isLengthKnown ? ServerChange.all : ServerChange.most {
            guard let content = change.content(old: old, other: other, part: partBytes, isLengthKnown: isLengthKnown)
            else { continue }
            let (length, part): (Int64?, Data) = (isLengthKnown ? 9_000 : nil, old.prefix(partBytes))
            let cut = StubServer {
                $0.answer(200, change.oldFields, expectedBytes: length, pieces: [part], then: .cut)
            }
            let first = try await Sending(Request.stub("file").saved(to: target), over: cut.transport).result()
            #expect(first.code == .connectionLost)
            #expect(try Data(contentsOf: directory.file(".target.convoy-part")) == part, "\(change)")
            try await expectRight(content, change, isSegmented: false)
        }
    }

    /// Contents that are fetched in two segments.
    private static let largeContents = (
        FileVersion.seeded(1, byteCount: 2_200_000), FileVersion.seeded(2, byteCount: 3_300_000)
    )

    /// The part has two ranges, and the next run is segmented or plain.
    @Test(arguments: [true, false]) func segmentsNeverJoinTwoVersions(isSegmented: Bool) async throws {
        let (old, other) = Self.largeContents
        for change in ServerChange.some where change.length != .belowThePart {
            let cut = StubServer { exchange in
                let isProbe = exchange.request.headerFields["Range"] == "bytes=0-0"
                FileVersion(old, etag: nil, headerFields: change.oldFields).answer(
                    exchange, sending: isProbe ? .max : 900_000, thenFailing: isProbe ? nil : .cut)
            }
            let first = cut.manager(1).downloadInSegments(.stub("file"), to: target, segments: 2)
            let error = await #expect(throws: RequestError.self) { try await first.file() }
            #expect(error?.code == .connectionLost)
            #expect(try directory.entries == [".target.convoy-part", ".target.convoy-resume"], "\(change)")
            let content = change.content(old: old, other: other, part: 2_100_000, isLengthKnown: true)
            try await expectRight(try #require(content), change, isSegmented: isSegmented)
        }
    }

    /// The server changes after its responses to the probe and the first segment.
    @Test func serverThatChangesBetweenTwoSegmentsIsNotJoined() async throws {
        let (old, other) = Self.largeContents
        for change in ServerChange.some where [.same, .longer].contains(change.length) {
            let content = try #require(change.content(old: old, other: other, part: 0, isLengthKnown: true))
            let asked = Locked(0)
            let server = StubServer { exchange in
                // The first two requests are the probe and the first segment.
                if asked.countUp() <= 2 {
                    FileVersion(old, etag: nil, headerFields: change.oldFields).answer(exchange)
                } else {
                    change.answer(exchange, with: content)
                }
            }
            let download = server.manager(1).downloadInSegments(.stub("file"), to: target, segments: 2)
            try await expectOutcome(content, change) { () async throws(RequestError) in try await download.file() }
        }
    }

    private func expectRight(_ content: Data, _ change: ServerChange, isSegmented: Bool) async throws {
        let server = StubServer { change.answer($0, with: content) }
        try await expectOutcome(content, change) { () async throws(RequestError) in
            let manager = server.manager(1)
            if isSegmented {
                return try await manager.downloadInSegments(.stub("file"), to: target, segments: 2).file()
            }
            return try await manager.send(Request.stub("file").saved(to: target)).value
        }
    }

    /// Runs a download, expects the server's content and no other file, and removes all files.
    private func expectOutcome(
        _ content: Data, _ change: ServerChange, _ run: () async throws(RequestError) -> URL
    ) async throws {
        do throws(RequestError) {
            _ = try await run()
            #expect(FileManager.default.contents(atPath: target.path) == content, "\(change)")
            #expect((try? directory.entries) == ["target"], "\(change)")
        } catch {
            Issue.record("\(change): \(error)")
        }
        for name in try directory.entries { try FileManager.default.removeItem(at: directory.file(name)) }
    }
}

/// Tests random schedules of faults: the target never has wrong bytes, and a run without faults completes it.
@Suite(.serialized, .timeLimit(.minutes(4))) struct SeededDownloadTests {
    private enum Day: CaseIterable {
        case cut, cancelled, unavailable, ignoresRanges, liesAboutTheStart, liesAboutTheTotal, saysNothing
        case unsatisfiable, changed, changedAndCut, longerThanSaid, shorterThanSaid, digestOfAnother, otherURL

        func answer(_ exchange: StubExchange, _ version: FileVersion, _ limit: Int) {
            let (content, count) = (version.content, version.content.count)
            let isRangeAskedFor = exchange.request.headerFields.contains("Range")
            var lying = version
            switch self {
            case .cut, .changedAndCut: version.answer(exchange, sending: limit, thenFailing: .cut)
            case .otherURL: FileVersion(content, etag: "\"other\"").answer(exchange, sending: limit, thenFailing: .cut)
            case .cancelled: version.answer(exchange, sending: limit, isLeftOpen: true)
            case .unavailable: exchange.answer(503)
            case .ignoresRanges: version.send(exchange, 200, version.headerFields, content, limit, .cut)
            case .liesAboutTheStart where isRangeAskedFor:
                lying.headerFields["Content-Range"] = "bytes 0-\(max(0, count - 1))/\(count)"
                lying.send(exchange, 206, lying.headerFields, content)
            case .liesAboutTheTotal where isRangeAskedFor:
                lying.headerFields["Content-Range"] = "bytes \(limit)-\(count)/\(count + 1)"
                lying.send(exchange, 206, lying.headerFields, content)
            case .saysNothing where isRangeAskedFor: version.send(exchange, 206, version.headerFields, content)
            case .unsatisfiable where isRangeAskedFor:
                version.send(exchange, 416, ["Content-Range": "bytes */\(limit)"], Data())
            case .longerThanSaid, .shorterThanSaid:
                // The transport does not check lengths.
                let said = Int64(self == .longerThanSaid ? limit : count + 1)
                exchange.answer(200, version.headerFields, expectedBytes: said, pieces: content.pieces(of: 10_000))
            case .digestOfAnother:
                let digest = (content + [1]).sha256.base64EncodedString()
                lying.headerFields["Repr-Digest"] = "sha-256=:\(digest):"
                lying.answer(exchange)
            default: version.answer(exchange)
            }
        }
    }

    private let directory: TemporaryDirectory
    private var target: URL { directory.file("target") }

    init() throws { directory = try TemporaryDirectory() }

    /// A file of the server, with a validator or with none.
    private static func makeVersion(
        _ number: Int, seed: UInt64, hasDates: Bool, _ random: inout SeededGenerator
    ) -> FileVersion {
        let size = [0, 1, 1_000, 8_000, 20_000, 40_000].randomElement(using: &random) ?? 0
        let byteCount = size + Int.random(in: 0..<1_000, using: &random)
        let content = FileVersion.seeded(seed &* 31 &+ UInt64(number), byteCount: byteCount)
        let isUnusual = Int.random(in: 0..<(hasDates ? 4 : 8), using: &random) == 0
        guard hasDates else { return FileVersion(content, etag: isUnusual ? nil : "\"\(number)\"") }
        return FileVersion(
            content, etag: isUnusual ? "W/\"\(number)\"" : nil,
            headerFields: [
                "Last-Modified": "Sat, 21 Nov 2026 10:00:0\(number % 10) GMT", "Date": "Sat, 21 Nov 2026 11:00:00 GMT",
            ])
    }

    @Test func targetNeverHoldsWrongBytes() async throws {
        for seed in 0..<UInt64(LongRuns.count(200, long: 1_000)) {
            var random = SeededGenerator(seed: seed)
            let (isVerified, hasDates) = (random.next() % 4 == 0, random.next() % 3 == 0)
            try? FileManager.default.removeItem(at: target)
            var version = Self.makeVersion(0, seed: seed, hasDates: hasDates, &random)
            var contents = [version.content]
            for _ in 0...Int.random(in: 0..<4, using: &random) {
                let day = Day.allCases[Int.random(in: 0..<Day.allCases.count, using: &random)]
                if day == .changed || day == .changedAndCut {
                    version = Self.makeVersion(contents.count, seed: seed, hasDates: hasDates, &random)
                    contents.append(version.content)
                }
                let limit = Int.random(in: 0...version.content.count, using: &random)
                let request = day == .otherURL ? Request.stub("other") : .stub("file")
                let policy = RetryPolicy(maxRetries: Int.random(in: 0...1, using: &random), baseDelay: .zero)
                _ = try await send(request.retries(policy), version, isVerified, isCancelled: day == .cancelled) {
                    [version] in day.answer($0, version, limit)
                }
                if let data = try? Data(contentsOf: target) {
                    #expect(contents.contains(data), "wrong bytes after seed \(seed), \(day)")
                }
            }
            let good = try await send(.stub("file"), version, isVerified) { [version] in version.answer($0) }
            #expect(good.code == nil, "seed \(seed): \(good)")
            #expect(try Data(contentsOf: target) == version.content, "seed \(seed)")
            #expect(try directory.entries == ["target"], "seed \(seed)")
        }
    }

    private func send(
        _ request: Request<Data>, _ version: FileVersion, _ isVerified: Bool, isCancelled: Bool = false,
        _ answer: @escaping @Sendable (StubExchange) -> Void
    ) async throws -> RequestOperation<URL>.Result {
        let server = StubServer(answer: answer)
        let digest = isVerified ? FileDigest.ofBytes(version.content) : nil
        let sending = Sending(request.saved(to: target, verifying: digest), over: server.transport)
        if isCancelled {
            await server.exchanges.wait()
            sending.operation.cancel()
        }
        return try await sending.result()
    }
}
