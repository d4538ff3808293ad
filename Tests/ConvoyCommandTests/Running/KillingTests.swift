import Foundation
import Testing

/// Kills a download at a call.
///
/// The next run must leave the complete file and nothing else.
/// `CONVOY_KILLS=200 CONVOY_KILL_BYTES=100000000` in the environment makes the tests as thorough as the published
/// measurements: they kill at the first 200 calls of each kind for each file.
class KilledDownloads: CommandTests {
    enum Policy: String, CaseIterable { case overwrite, skip, fail, rename, updateIfChanged }
    enum Shape: String, CaseIterable { case plain, segmented, resumed }

    static let body = Reply.pattern(range: 0..<3_000_000)
    static let killCount = ProcessInfo.processInfo.environment["CONVOY_KILLS"].flatMap(Int.init)

    override init() throws {
        try super.init(in: TemporaryDirectory.besideProducts())
        server.respond { _ in .resource(Self.body, etag: "\"v1\"") }
    }

    func arguments(_ policy: Policy = .overwrite, _ shape: Shape = .plain) -> [String] {
        ["fetch", "--quiet", "--retries", "0", "--existing", policy.rawValue]
            + (shape == .segmented ? ["--segments", "2"] : []) + ["-o", directory.url.path, url("/file")]
    }

    func isRight(_ name: String) -> Bool { (try? data(name)) == Self.body }
    func partSize() -> Int64 { Int64((try? data(".file.convoy-part").count) ?? 0) }

    /// Expects that the last request asked for at most a mebibyte again of the bytes that were there.
    @discardableResult
    func expectContinued(from there: Int64, _ moment: String) -> Int64 {
        let range = server.recordedRequests.last?.value(of: "Range")
        let start = range.flatMap { Int64($0.dropFirst(6).dropLast()) } ?? 0
        #expect(there - start <= 1 << 20, "\(there) bytes were there after \(moment), and \(start) was asked for")
        return there - start
    }

    /// Kills at the first call of a kind for each file, then at the second, and so on.
    ///
    /// For each file, this ends after `count` kills, or when a run makes no further call of that kind. Each file has
    /// separate runs, because strace counts calls by thread and the thread of a call varies.
    func kills(
        at call: String, _ policy: Policy, _ shape: Shape, _ left: [String: Data], count: Int
    ) async throws -> Int {
        var kills = 0
        for name in [".file.convoy-part", ".file.convoy-resume", ".file.convoy-resume-new", "file", ""] {
            for number in 1...count {
                guard try await kill([call], name, number, policy, shape, left) else { break }
                kills += 1
            }
        }
        print("\(call), \(policy), \(shape): killed at \(kills) calls")
        return kills
    }

    /// Kills the command at a call and runs it again; returns whether the command made that call.
    func kill(
        _ calls: [String], _ name: String?, _ number: Int, _ policy: Policy, _ shape: Shape, _ left: [String: Data],
        lacksRenaming: Bool = false, isFinished: Bool = true
    ) async throws -> Bool {
        for name in try directory.names() { try FileManager.default.removeItem(atPath: path(name)) }
        for (name, data) in left { try data.write(to: directory.file(name)) }
        let list = calls.joined(separator: ",")
        let ending = try await Strace.run(
            arguments(policy, shape), tracing: calls, injecting: "\(list):signal=KILL:when=\(number)",
            path: name.map { $0.isEmpty ? directory.url.path : path($0) }, lacksRenaming: lacksRenaming)
        let moment = "\(calls) \(number) of \(name ?? "any") with \(policy), \(shape)"
        let isThere = FileManager.default.fileExists(atPath: path("file"))
        #expect(!isThere || isRight("file"), "the target is wrong after \(moment)")
        guard ending.isSignalled || ending.status == 137 else {
            #expect(ending.status == 0, "\(moment): \(ending.errors)")
            return false
        }
        guard isFinished else { return true }
        let there = partSize()
        let next = try await ConvoyProcess(arguments(policy, shape)).ended()
        #expect(next.status == (policy == .fail && isThere ? 1 : 0), "\(moment): \(next.errors)")
        // If the file already had its final name, the next run downloads it again from the start.
        if policy == .overwrite, shape == .plain, !isThere { expectContinued(from: there, moment) }
        let made = policy == .rename && isThere ? ["file", "file-1"] : ["file"]
        let names = try directory.names().filter { policy != .updateIfChanged || $0 != ".file.convoy-version" }
        #expect(names == made, "after \(moment)")
        for name in made { #expect(isRight(name), "\(name) is wrong after \(moment)") }
        return true
    }
}

/// Kills the command at each call that touches the files, and at many moments of a transfer.
@Suite(.serialized) final class KillingTests: KilledDownloads {
    @Test(
        .enabled(if: Strace.isInstalled, "strace is not installed"),
        arguments: ["openat", "flock", "write", "pwrite64", "fsync", "rename", "unlink", "close"])
    func killedAtEachCall(call: String) async throws {
        let kills = try await kills(at: call, .overwrite, .plain, [:], count: Self.killCount ?? 1)
        // The test proves nothing about a call that is never made. The command must make at least these calls.
        #expect(kills > 0 || call == "close", "\(call)")
    }

    /// The server pauses at a random byte, and the test kills the command there.
    ///
    /// This repeats `CONVOY_KILLS` times, by default 8. When the part is almost complete, the test finishes the
    /// download and starts a new one.
    @Test func killedAtManyMoments() async throws {
        let byteCount = ProcessInfo.processInfo.environment["CONVOY_KILL_BYTES"].flatMap { Int64($0) } ?? 4_000_000
        let killCount = Self.killCount ?? 8
        let (whole, resource) = (
            Reply.pattern(range: 0..<byteCount), Reply.resource(generatedByteCount: byteCount, etag: "\"v1\"")
        )
        var random = SystemRandomNumberGenerator()
        var (kills, refetched) = (0, Int64(0))
        while kills < killCount {
            try? FileManager.default.removeItem(atPath: path("file"))
            var there: Int64 = 0
            while kills < killCount {
                let gate = Gate()
                let moment = Int64.random(in: 0..<max(1, (byteCount - there) / 4), using: &random)
                server.respond { _ in resource.stalling(afterBodyBytes: moment, until: gate) }
                let child = try ConvoyProcess(arguments())
                try await gate.reached(within: .seconds(120))
                child.send(SIGKILL)
                try await child.ended(mayBeKilled: true)
                gate.open()
                kills += 1
                if let target = try? data("file") { #expect(target == whole, "after kill \(kills)") }
                refetched = max(refetched, expectContinued(from: there, "kill \(kills - 1)"))
                there = partSize()
                if there > byteCount - 1_000 { break }
            }
            server.respond { _ in resource }
            try await convoy(arguments())
            #expect(try data("file") == whole, "after \(kills) kills")
            #expect(try directory.names() == ["file"], "after \(kills) kills")
        }
        print("\(kills) kills, at most \(refetched) bytes fetched again")
    }
}

/// Kills the command at each call that changes files, for every policy and every kind of transfer.
///
/// By default the test kills at the first two calls that change names.
@Suite(.serialized, .enabled(if: Strace.isInstalled, "strace is not installed"))
final class KillingPoliciesTests: KilledDownloads {
    private static let renaming = ["rename", "renameat2", "link", "unlink"]
    private static let all = ["openat", "flock", "write", "pwrite64", "ftruncate", "fsync", "close"] + renaming

    /// Returns the files that an interrupted run of the shape `resumed` leaves.
    private func leftover(_ shape: Shape) async throws -> [String: Data] {
        guard shape == .resumed else { return [:] }
        server.enqueue(.resource(Self.body, etag: "\"v1\"").resetting(afterBytes: 1_500_000))
        try await convoy(arguments(.overwrite, shape), status: nil)
        let files = try Dictionary(uniqueKeysWithValues: directory.names().map { ($0, try data($0)) })
        #expect(files.keys.sorted() == [".file.convoy-part", ".file.convoy-resume"])
        return files
    }

    @Test(arguments: Policy.allCases, Shape.allCases)
    func nextRunLeavesExactlyTheFile(policy: Policy, shape: Shape) async throws {
        let left = try await leftover(shape)
        var kills = 0
        if let count = Self.killCount {
            for call in Self.all { kills += try await self.kills(at: call, policy, shape, left, count: count) }
        } else {
            for number in 1...2 { kills += try await kill(Self.renaming, nil, number, policy, shape, left) ? 1 : 0 }
        }
        #expect(kills > 0)
    }

    /// If the file system cannot rename without replacing, the command links the file and then removes the old name.
    @Test(arguments: [Policy.skip, .fail, .rename], ["link", "unlink"])
    func theNextRunRemovesTheSecondName(policy: Policy, call: String) async throws {
        #expect(try await kill([call], ".file.convoy-part", 1, policy, .plain, [:], lacksRenaming: true))
    }

    /// The command does not continue a part that is a hard link of a file that was changed.
    @Test func aChangedFileIsNotContinuedAsItsPart() async throws {
        _ = try await kill(
            ["unlink"], ".file.convoy-part", 1, .skip, .plain, [:], lacksRenaming: true, isFinished: false)
        try Data("edited".utf8).write(to: directory.file("file"))
        try FileManager.default.removeItem(atPath: path("file"))
        try await convoy(arguments(.skip))
        #expect(try directory.names() == ["file"])
        #expect(isRight("file"))
    }

    /// The help promises that a file with its final name is on the disk.
    @Test(arguments: [Shape.plain, .segmented]) func aDirectoryThatCannotBeSynchronizedIsReported(shape: Shape)
        async throws
    {
        let ending = try await Strace.run(
            arguments(.overwrite, shape), tracing: ["fsync"], injecting: "fsync:error=EIO", path: directory.url.path)
        #expect(ending.status == 1)
        #expect(ending.errors.contains("could not be written to the disk"), "\(ending.errors)")
        #expect(try directory.names() == ["file"])
        #expect(isRight("file"))
    }
}

/// Runs the command under strace, which injects signals and errors.
enum Strace {
    private static let program = "/usr/bin/strace"
    static let isInstalled = FileManager.default.isExecutableFile(atPath: program)

    /// - Parameter lacksRenaming: Whether the file system cannot rename without replacing.
    static func run(
        _ arguments: [String], tracing calls: [String], injecting injection: String, path: String?,
        lacksRenaming: Bool = false
    ) async throws -> ConvoyProcess.Ending {
        // This option keeps other calls fast, but with it strace cannot inject an error for one path.
        let filter = lacksRenaming ? ["-e", "inject=renameat2:error=EINVAL"] : ["--seccomp-bpf"]
        let traced = (lacksRenaming ? calls + ["renameat2"] : calls).joined(separator: ",")
        let options = ["-f", "-qq", "-o", "/dev/null", "-e", "trace=\(traced)", "-e", "inject=\(injection)"]
        return try await ConvoyProcess(
            under: program, options + filter + (path.map { ["-P", $0] } ?? []), arguments
        ).ended(mayBeKilled: true)
    }
}
