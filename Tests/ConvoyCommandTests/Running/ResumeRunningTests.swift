import Foundation
import Testing

/// Tests the files that a run leaves and their use by the next run.
@Suite final class ResumeRunningTests: CommandTests {
    private static let byteCount: Int64 = 3_000_000
    private static let resource = Reply.resource(generatedByteCount: byteCount, etag: "\"v1\"")

    /// Interrupts the command when about two thirds of `fileCount` files have arrived.
    private func interrupt(_ arguments: [String], fileCount: Int = 1, signal: Int32 = SIGINT) async throws
        -> ConvoyProcess.Ending
    {
        let gate = Gate()
        server.respond { _ in Self.resource.stalling(afterBodyBytes: 2_000_000, until: gate) }
        let child = try ConvoyProcess(["fetch", "-P", directory.url.path] + arguments)
        try await gate.reached(count: fileCount, within: .seconds(120))
        // The gate shows the position of the server. The command may lag behind the server.
        await look { (try? partBytes()) ?? 0 >= Int64(fileCount) * 1_900_000 }
        child.send(signal)
        server.respond { _ in Self.resource }
        return try await child.ended()
    }

    private func partBytes() throws -> Int64 {
        try directory.names().filter { $0.hasSuffix(".convoy-part") }.reduce(0) { sum, name in
            let attributes = try FileManager.default.attributesOfItem(atPath: path(name))
            return sum + (attributes[.size] as? Int64 ?? 0)
        }
    }

    private func isWhole(_ name: String) throws -> Bool {
        try data(name) == Reply.pattern(range: 0..<Self.byteCount)
    }

    @Test(arguments: [(SIGINT, 130), (SIGTERM, 143), (SIGHUP, 129)] as [(Int32, Int32)])
    func theSameCommandContinuesAfterASignal(signal: Int32, status: Int32) async throws {
        let arguments = [url("/a"), url("/b")]
        let first = try await interrupt(arguments, fileCount: 2, signal: signal)
        #expect(first.status == status)
        #expect(first.output.contains(", 2 cancelled; exit status \(status)\n"))
        #expect(try partBytes() > 3_000_000)
        #expect(first.output.contains("\n2 files are kept in part, "))
        #expect(first.output.hasSuffix(" MB; the same command continues them\n"))
        let names = [".a.convoy-part", ".a.convoy-resume", ".b.convoy-part", ".b.convoy-resume"]
        #expect(try directory.names() == names)

        try await fetch(
            arguments,
            prints: ["saved a  3.0 MB in ", " MB of them from an earlier run\n", " from an earlier run in "], errors: ""
        )
        #expect(try directory.names() == ["a", "b"])
        #expect(try isWhole("a") && isWhole("b"))
        let ranges = server.recordedRequests.dropFirst(2).compactMap { $0.value(of: "Range") }
        #expect(ranges.count == 2)
        #expect(!ranges.contains("bytes=0-"))
    }

    /// Swift's own handler would print a backtrace, and the process would continue.
    @Test func quittingEndsTheCommandAtOnce() async throws {
        let ending = try await interrupt([url("/a")], signal: SIGQUIT)
        #expect(ending.status == 1 && !ending.isSignalled)
        #expect(!ending.errors.contains("crashed"), "\(ending.errors)")
    }

    @Test func jsonReportsKeptAndResumedBytes() async throws {
        let first = try await interrupt(["--json", url("/a")])
        let kept = try partBytes()
        #expect(first.values("failed", "kept_bytes") == "\(kept)")
        #expect(first.values("summary", "kept_files", "kept_bytes") == "1 \(kept)")
        let second = try await fetch("--json", url("/a"))
        #expect(second.values("finished", "bytes", "resumed_bytes") == "\(Self.byteCount) \(kept)")
        let summary = second.values("summary", "bytes", "resumed_bytes", "kept_files")
        #expect(summary == "\(Self.byteCount - kept) \(kept) 0")
    }

    @Test func bytesOfARetryAreNotFromAnEarlierRun() async throws {
        server.enqueue([Self.resource.resetting(afterBytes: 2_000_000), Self.resource])
        let ending = try await fetch("--json", url("/a"))
        #expect(ending.events(named: "retry").count == 1)
        #expect(ending.values("finished", "bytes", "resumed_bytes") == "\(Self.byteCount) nil")
        #expect(try isWhole("a"))
    }

    @Test func namesThatTheServerGivesAreContinuedToo() async throws {
        let arguments = ["-J", url("/a")]
        let first = try await interrupt(arguments)
        #expect(first.output.contains("\n1 file is kept in part, "))
        server.respond { _ in
            let fields = [("Content-Disposition", "attachment; filename=\"../report 7.pdf\"")]
            return .resource(generatedByteCount: Self.byteCount, etag: "\"v1\"", headerFields: fields)
        }
        try await fetch(arguments, prints: ["saved report 7.pdf  3.0 MB in ", " of them from an earlier run\n"])
        #expect(try directory.names() == ["report 7.pdf"])
        #expect(try isWhole("report 7.pdf"))
    }

    @Test func anInterruptedListAdvisesToSkipCompleteFiles() async throws {
        server.route("/whole") { _ in .status(200, body: "whole") }
        let gate = Gate()
        server.route("/stalls") { _ in .generated(byteCount: 100).stalling(afterBodyBytes: 10, until: gate) }
        let output = Pipe()
        let child = try ConvoyProcess(
            ["fetch", "-o", directory.url.path, url("/whole"), url("/stalls")], output: output)
        try output.fileHandleForWriting.close()
        let before = await output.text(until: "saved whole")
        try await gate.reached(within: .seconds(120))
        child.send(SIGINT)
        let text = before + (await output.text())
        try await child.ended(status: 130, errors: "--existing skip it skips 1 complete file\n$")
        // The pipe receives a line for each saved file. Standard error receives the summary.
        #expect(text.split(separator: "\n").count == 1)
    }
}

/// Tests the effects of `--segments`, `--rate` and `--min-speed` that need no clock.
@Suite final class SegmentsRunningTests: CommandTests {
    private static let byteCount: Int64 = 5_000_000

    override init() throws {
        try super.init()
        server.respond { _ in .resource(generatedByteCount: Self.byteCount, etag: "\"v1\"") }
    }

    private func segments(_ options: String...) async throws -> ConvoyProcess.Ending {
        let ending = try await fetch("--json", options, url("/file"))
        #expect(try directory.names() == ["file"])
        #expect(try data("file") == Reply.pattern(range: 0..<Self.byteCount))
        return ending
    }

    @Test func aFileComesInSegments() async throws {
        let ending = try await segments("--segments", "4")
        #expect(server.requestCount == 5)
        #expect(ending.values("finished", "bytes") == "\(Self.byteCount)")
        #expect(ending.values("summary", "succeeded") == "1")
    }

    /// The bytes on the disk: a part that segments fill has its whole size from the start.
    private func storedBytes() -> Int {
        let part = directory.url.appendingPathComponent(".file.convoy-part")
        return (try? part.resourceValues(forKeys: [.fileAllocatedSizeKey]))?.fileAllocatedSize ?? 0
    }

    @Test func interruptedSegmentsAreContinued() async throws {
        let gate = Gate()
        server.respond { request in
            let reply = Reply.resource(generatedByteCount: Self.byteCount, etag: "\"v1\"")
            let isHeld = request.value(of: "Range") == "bytes=2500000-4999999"
            return isHeld ? reply.stalling(afterBodyBytes: 1_000_000, until: gate) : reply
        }
        let child = try ConvoyProcess(["fetch", "--segments=2", "-o", directory.url.path, url("/file")])
        try await gate.reached(within: .seconds(120))
        // The gate shows the position of the server. The command may lag behind the server.
        await look { storedBytes() >= 3_000_000 }
        child.send(SIGINT)
        #expect(try await child.ended(status: 130).output.contains("1 file is kept in part"))
        server.respond { _ in .resource(generatedByteCount: Self.byteCount, etag: "\"v1\"") }
        let count = server.requestCount
        let next = try await segments("--segments=2")
        let ranges = server.recordedRequests.dropFirst(count).map { $0.value(of: "Range") }
        #expect(!ranges.contains("bytes=2500000-4999999") && !ranges.contains(nil))
        #expect(next.events(named: "finished").first?["resumed_bytes"] as? Int ?? 0 > 0)
    }

    @Test(arguments: ["--segments=1", "--segments=3"]) func aRateIsKeptToWithoutLosingAByte(option: String) async throws
    {
        _ = try await segments(option, "--rate=50M", "--min-speed=1")
    }
}

/// Changes a file between two runs, on a server that ignores `If-Range` and sends a 206 of a file of the same length.
@Suite(.serialized) final class ServerChangeRunningTests: CommandTests {
    private static let old = Reply.pattern(range: 0..<2_200_000)
    private static let new = Reply.pattern(range: 80_000_000..<82_200_000)

    private static func fields(_ validator: String) -> [(String, String)] {
        let date = ("Date", "Sat, 21 Nov 2026 12:00:00 GMT")
        return switch validator {
        case "kept": [date, ("ETag", "\"v1\""), ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")]
        case "weak": [date, ("ETag", "W/\"v1\""), ("Last-Modified", "Sat, 21 Nov 2026 12:00:00 GMT")]
        case "changed": [date, ("ETag", "\"v2\""), ("Last-Modified", "Sat, 21 Nov 2026 11:00:00 GMT")]
        default: [date]
        }
    }

    private static func reply(to request: RecordedRequest, _ validator: String, _ content: Data) -> Reply {
        guard let field = request.value(of: "Range") else {
            return .status(200, headerFields: fields(validator), body: content)
        }
        let ends = field.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
        let range = (ends[0] ?? 0)..<min(ends[1] ?? .max, content.count - 1) + 1
        let place = ("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(content.count)")
        return .status(206, headerFields: fields(validator) + [place], body: content[range])
    }

    @Test(arguments: ["kept", "dropped", "weak", "changed"], [[], ["--segments", "2"]])
    func theFileIsThatOfTheServer(validator: String, options: [String]) async throws {
        let arguments = ["--quiet", "--retries", "0"] + options + [url("/file")]
        server.respond { request in
            let reply = Self.reply(to: request, "kept", Self.old)
            return request.value(of: "Range") == "bytes=0-0" ? reply : reply.resetting(afterBytes: 900_000)
        }
        try await fetch(arguments, status: nil)
        let content = validator == "kept" ? Self.old : Self.new
        server.respond { Self.reply(to: $0, validator, content) }
        try await fetch(arguments)
        #expect(try data("file") == content)
    }
}
