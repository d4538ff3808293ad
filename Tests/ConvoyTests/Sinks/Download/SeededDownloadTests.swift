import Foundation
import Testing

@testable import Convoy

/// Tests random schedules of faults: the target never has wrong bytes, and a run without faults completes it.
@Suite(.serialized, .timeLimit(.minutes(4))) struct SeededDownloadTests {
    /// Several runs of one download with faults, and a last one without.
    private struct Schedule: Sendable {
        enum Day: CaseIterable {
            case cut, cancelled, unavailable, ignoresRanges, liesAboutTheStart, liesAboutTheTotal, saysNothing
            case unsatisfiable, changed, changedAndCut, longerThanSaid, shorterThanSaid, digestOfAnother, otherURL
        }

        private(set) var random: SeededGenerator
        /// All versions that the server has had, the current one last.
        private(set) var versions: [FileVersion] = []
        let isVerified: Bool
        private let hasDates: Bool
        private let seed: UInt64

        init(seed: UInt64) {
            random = SeededGenerator(seed: seed)
            self.seed = seed
            (isVerified, hasDates) = (random.next() % 4 == 0, random.next() % 3 == 0)
            publish()
        }

        var current: FileVersion { versions[versions.count - 1] }

        mutating func next(_ limit: Int) -> Int { Int(random.next() % UInt64(max(1, limit))) }

        /// Gives the server another file, with another validator or with none.
        mutating func publish() {
            let sizes = [0, 1, 1_000, 8_000, 20_000, 40_000]
            let size = sizes[next(sizes.count)] + next(1_000)
            let content = FileVersion.seeded(seed &* 31 &+ UInt64(versions.count), byteCount: size)
            var version = FileVersion(content, etag: "\"\(versions.count)\"")
            if hasDates {
                version.headerFields = [
                    "Last-Modified": "Sat, 21 Nov 2026 10:00:0\(versions.count % 10) GMT",
                    "Date": "Sat, 21 Nov 2026 11:00:00 GMT",
                ]
                if next(4) == 0 { version.headerFields["ETag"] = "W/\"\(versions.count)\"" }
            } else if next(8) == 0 {
                version.headerFields = [:]
            }
            versions.append(version)
        }
    }

    private let directory: TemporaryDirectory
    private var target: URL { directory.file("target") }

    init() throws { directory = try TemporaryDirectory() }

    @Test func targetNeverHoldsWrongBytes() async throws {
        var outcomes: [RequestError.Code?: Int] = [:]
        for seed in 0..<UInt64(LongRuns.count(200, long: 1_000)) {
            var schedule = Schedule(seed: seed)
            try? FileManager.default.removeItem(at: target)
            for _ in 0..<1 + schedule.next(4) {
                let day = Schedule.Day.allCases[schedule.next(Schedule.Day.allCases.count)]
                let result = try await run(day, &schedule)
                outcomes[result.code, default: 0] += 1
                try expectNothingWrong(schedule, "seed \(seed), \(day)")
            }
            let good = try await send(schedule, .stub("file")) { [version = schedule.current] in version.answer($0) }
            #expect(good.code == nil, "seed \(seed): \(good)")
            #expect(try Data(contentsOf: target) == schedule.current.content, "seed \(seed)")
            #expect(try directory.entries == ["target"], "seed \(seed)")
        }
        // The test proves something only if each outcome occurs often.
        for code in [.connectionLost, .cancelled, .unacceptableStatus, nil] as [RequestError.Code?] {
            #expect(outcomes[code, default: 0] > 15, "\(outcomes)")
        }
    }

    private func expectNothingWrong(_ schedule: Schedule, _ moment: String) throws {
        guard let data = try? Data(contentsOf: target) else { return }
        #expect(schedule.versions.contains { $0.content == data }, "wrong bytes after \(moment)")
    }

    private func send(
        _ schedule: Schedule, _ request: Request<Data>, isCancelled: Bool = false,
        _ answer: @escaping @Sendable (StubExchange) -> Void
    ) async throws -> RequestOperation<URL>.Result {
        let digest = schedule.isVerified ? FileDigest.ofBytes(schedule.current.content) : nil
        let server = StubServer(answer: answer)
        let sending = Sending(request.saved(to: target, verifying: digest), over: server.transport)
        if isCancelled {
            await server.exchanges.wait()
            sending.operation.cancel()
        }
        return try await sending.result()
    }

    private func run(_ day: Schedule.Day, _ schedule: inout Schedule) async throws -> RequestOperation<URL>.Result {
        let before = schedule.current
        if [.changed, .changedAndCut].contains(day) { schedule.publish() }
        let version = schedule.current
        let limit = schedule.next(version.content.count + 1)
        let request = Request.stub("file").retries(RetryPolicy(maxRetries: schedule.next(2), baseDelay: .zero))
        switch day {
        case .cut, .changedAndCut:
            return try await send(schedule, request) { version.answer($0, sending: limit, thenFailing: .cut) }
        case .changed:
            return try await send(schedule, request) { version.answer($0) }
        case .cancelled:
            return try await send(schedule, request, isCancelled: true) { exchange in
                version.answer(exchange, sending: limit, isLeftOpen: true)
            }
        case .unavailable: return try await send(schedule, request) { $0.answer(503) }
        case .ignoresRanges:
            return try await send(schedule, request) { exchange in
                version.send(exchange, 200, version.headerFields, version.content, limit, .cut)
            }
        case .liesAboutTheStart, .liesAboutTheTotal, .saysNothing:
            let count = version.content.count
            let field: String? =
                switch day {
                case .liesAboutTheStart: "bytes 0-\(max(0, count - 1))/\(count)"
                case .liesAboutTheTotal: "bytes \(limit)-\(count)/\(count + 1)"
                default: nil
                }
            return try await send(schedule, request) { exchange in
                guard exchange.request.headerFields["Range"] != nil else { return version.answer(exchange) }
                var fields = version.headerFields
                fields["Content-Range"] = field
                version.send(exchange, 206, fields, before.content)
            }
        case .unsatisfiable:
            return try await send(schedule, request) { exchange in
                guard exchange.request.headerFields["Range"] != nil else { return version.answer(exchange) }
                version.send(exchange, 416, ["Content-Range": "bytes */\(limit)"], Data())
            }
        case .longerThanSaid, .shorterThanSaid:
            // The transport does not check lengths.
            let said = day == .longerThanSaid ? limit : version.content.count + 1
            return try await send(schedule, request) { exchange in
                exchange.respond(
                    ResponseHead(
                        statusCode: 200, headerFields: version.headerFields, expectedBytes: Int64(said)))
                for piece in version.content.pieces(of: 10_000) { exchange.send(piece) }
                exchange.finish()
            }
        case .digestOfAnother:
            let digest = (version.content + [1]).sha256.base64EncodedString()
            return try await send(schedule, request) { exchange in
                var lying = version
                lying.headerFields["Repr-Digest"] = "sha-256=:\(digest):"
                lying.answer(exchange)
            }
        case .otherURL:
            return try await send(schedule, .stub("other")) { exchange in
                FileVersion(version.content, etag: "\"other\"").answer(exchange, sending: limit, thenFailing: .cut)
            }
        }
    }
}
