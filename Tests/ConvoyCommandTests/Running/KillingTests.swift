import ConvoyTesting
import Foundation
import Testing

/// Kills the command at each call that touches the files, and at many moments of a transfer.
///
/// `CONVOY_KILLS=200 CONVOY_KILL_BYTES=100000000` in the environment makes the test as thorough as the published
/// measurements.
@Suite(.serialized) struct KillingTests {
    private static let strace = "/usr/bin/strace"
    private static let part = ".file.convoy-part"
    private static let record = ".file.convoy-resume"

    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        directory = try TemporaryDirectory.besideProducts()
        server = try TestServer()
    }

    private var target: URL { directory.url.appending(path: "file") }
    private var arguments: [String] {
        ["fetch", "--quiet", "--retries", "0", "-o", directory.url.path, server.url("/file").absoluteString]
    }

    private static func setting(_ name: String, default value: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap(Int.init) ?? value
    }

    /// Expects that the target is absent or correct.
    private func expectNothingWrong(_ byteCount: Int64, _ moment: String) {
        guard let data = try? Data(contentsOf: target) else { return }
        #expect(data == Reply.pattern(range: 0..<byteCount), "the target is wrong after \(moment)")
    }

    private func size(of name: String) -> Int64 {
        let attributes = try? FileManager.default.attributesOfItem(atPath: directory.url.appending(path: name).path)
        return (attributes?[.size] as? NSNumber)?.int64Value ?? 0
    }

    /// Returns the offset at which a range starts.
    private static func start(_ range: String?) -> Int64 { range.flatMap { Int64($0.dropFirst(6).dropLast()) } ?? 0 }

    /// Runs the command to the end.
    private func finish(_ byteCount: Int64, _ moment: String) async throws {
        let ending = try await ConvoyProcess(arguments).ended()
        #expect(ending.status == 0, "\(moment): \(ending.errors)")
        #expect(try Data(contentsOf: target) == Reply.pattern(range: 0..<byteCount), "after \(moment)")
        #expect(try directory.names() == ["file"], "after \(moment)")
    }

    /// Kills at the first call of a kind, then at the second, and so on.
    ///
    /// For each file, this ends after `CONVOY_KILLS` kills, or when a run makes no further call of that kind.
    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: strace), "strace is not installed"),
        arguments: ["openat", "flock", "write", "pwrite64", "fsync", "rename", "unlink", "close"])
    func killedAtEachCall(call: String) async throws {
        let byteCount: Int64 = 3_000_000
        server.respond { _ in .resource(generatedByteCount: byteCount, etag: "\"v1\"") }
        var (kills, taken) = (0, 0)
        // Each file has separate runs, because strace counts calls by thread and the thread of a call varies.
        for name in [Self.part, Self.record, Self.record + "-new", "file", ""] {
            kills += try await kill(at: call, of: directory.url.appending(path: name).path, byteCount, &taken)
        }
        print("\(call): killed at \(kills) calls")
        // The test proves nothing about a call that is never made. The command must make at least these calls.
        if ["openat", "flock", "write", "pwrite64", "fsync", "rename", "unlink"].contains(call) {
            #expect(kills > 0, "\(call)")
        }
    }

    /// Kills at the first call of a kind for one path, then at the second.
    ///
    /// Returns the number of kills.
    private func kill(at call: String, of path: String, _ byteCount: Int64, _ taken: inout Int) async throws -> Int {
        var kills = 0
        for number in 1...Self.setting("CONVOY_KILLS", default: 1) {
            try? FileManager.default.removeItem(at: target)
            let moment = "\(call) \(number) of \(path)"
            let child = try ConvoyProcess(
                under: Self.strace,
                [
                    "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=\(call)", "-e",
                    "inject=\(call):signal=KILL:when=\(number)", "-P", path,
                ], arguments)
            let ending = try await child.ended(mayBeKilled: true)
            expectNothingWrong(byteCount, moment)
            let isKilled = ending.isSignalled || ending.status == 137
            if !isKilled {
                #expect(ending.status == 0, "\(moment): \(ending.errors)")
                break
            }
            kills += 1
            let isThere = FileManager.default.fileExists(atPath: target.path)
            let there = size(of: Self.part)
            while taken < server.requestCount {
                _ = try await server.takeRequest()
                taken += 1
            }
            try await finish(byteCount, moment)
            let asked = try await server.takeRequest().value(of: "Range")
            taken += 1
            // If the file already had its final name, the next run downloads it again from the start.
            if !isThere { #expect(there - Self.start(asked) <= 1 << 20, "\(there) bytes were there after \(moment)") }
        }
        return kills
    }

    /// The server pauses at a random byte, and the test kills the command there.
    ///
    /// This repeats `CONVOY_KILLS` times, by default 8. When the part is almost complete, the test finishes the
    /// download and starts a new one.
    @Test func killedAtManyMoments() async throws {
        let byteCount = Int64(Self.setting("CONVOY_KILL_BYTES", default: 4_000_000))
        var random = SystemRandomNumberGenerator()
        var kills = 0
        var refetched: Int64 = 0
        while kills < Self.setting("CONVOY_KILLS", default: 8) {
            try? FileManager.default.removeItem(at: target)
            var there: Int64 = 0
            while kills < Self.setting("CONVOY_KILLS", default: 8) {
                let gate = Gate()
                let moment = Int64.random(in: 0..<max(1, (byteCount - there) / 4), using: &random)
                server.respond { _ in
                    .resource(generatedByteCount: byteCount, etag: "\"v1\"").stalling(
                        afterBodyBytes: moment, until: gate)
                }
                let child = try ConvoyProcess(arguments)
                try await gate.reached(within: .seconds(120))
                child.send(SIGKILL)
                _ = try await child.ended(mayBeKilled: true)
                gate.open()
                kills += 1
                expectNothingWrong(byteCount, "kill \(kills)")
                // Compares the start of the requested range with the bytes that the previous run left.
                let asked = try await server.takeRequest().value(of: "Range")
                let start = Self.start(asked)
                refetched = max(refetched, there - start)
                #expect(
                    there - start <= 1 << 20, "\(there) bytes were there, and those from \(start) on were asked for")
                there = size(of: Self.part)
                if there > byteCount - 1_000 { break }
            }
            server.respond { _ in .resource(generatedByteCount: byteCount, etag: "\"v1\"") }
            try await finish(byteCount, "\(kills) kills")
            _ = try await server.takeRequest()
        }
        print("\(kills) kills, at most \(refetched) bytes fetched again")
    }
}
