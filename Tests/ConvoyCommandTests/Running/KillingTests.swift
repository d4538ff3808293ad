import Foundation
import Testing

/// Kills the command at each call that touches the files, and at many moments of a transfer.
///
/// `CONVOY_KILLS=200 CONVOY_KILL_BYTES=100000000` in the environment makes the test as thorough as the published
/// measurements.
@Suite(.serialized) struct KillingTests {
    private static let part = ".file.convoy-part"
    private static let record = ".file.convoy-resume"

    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        directory = try TemporaryDirectory.besideProducts()
        server = try TestServer()
    }

    private var target: URL { directory.file("file") }
    private var arguments: [String] {
        ["fetch", "--quiet", "--retries", "0", "-o", directory.url.path, server.url("/file").absoluteString]
    }

    private static func setting(_ name: String, default value: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap(Int.init) ?? value
    }

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

    private func finish(_ byteCount: Int64, _ moment: String) async throws {
        try await convoy(arguments)
        #expect(try Data(contentsOf: target) == Reply.pattern(range: 0..<byteCount), "after \(moment)")
        #expect(try directory.names() == ["file"], "after \(moment)")
    }

    /// Kills at the first call of a kind, then at the second, and so on.
    ///
    /// For each file, this ends after `CONVOY_KILLS` kills, or when a run makes no further call of that kind.
    @Test(
        .enabled(if: Strace.isInstalled, "strace is not installed"),
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

    /// Kills at the first call of a kind for one path, then at the second; returns the number of kills.
    private func kill(at call: String, of path: String, _ byteCount: Int64, _ taken: inout Int) async throws -> Int {
        var kills = 0
        for number in 1...Self.setting("CONVOY_KILLS", default: 1) {
            try? FileManager.default.removeItem(at: target)
            let moment = "\(call) \(number) of \(path)"
            let ending = try await Strace.run(
                arguments, tracing: [call], injecting: "\(call):signal=KILL:when=\(number)", path: path)
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

/// Kills the command at each call that changes files, for every policy and every kind of transfer.
///
/// The next run must leave the complete file and nothing else. `CONVOY_KILLS=20` in the environment kills at the
/// first 20 calls of each kind for each file. By default the test kills at the first two calls that change names.
@Suite(.serialized, .enabled(if: Strace.isInstalled, "strace is not installed"))
struct KillingPoliciesTests {
    enum Policy: String, CaseIterable { case overwrite, skip, fail, rename, updateIfChanged }
    enum Shape: String, CaseIterable { case plain, segmented, resumed }

    private static let byteCount: Int64 = 2_200_000
    private static let content = Reply.pattern(range: 0..<byteCount)
    private static let names = ["rename", "renameat2", "link", "unlink"]
    private static let all = ["openat", "flock", "write", "pwrite64", "ftruncate", "fsync", "close"] + names
    private static let killCount = ProcessInfo.processInfo.environment["CONVOY_KILLS"].flatMap(Int.init)

    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        directory = try TemporaryDirectory.besideProducts()
        server = try TestServer()
        server.respond { _ in .resource(Self.content, etag: "\"v1\"") }
    }

    private func path(_ name: String) -> String { directory.url.appending(path: name).path }

    private func arguments(_ policy: Policy, _ shape: Shape) -> [String] {
        ["fetch", "--quiet", "--retries", "0", "--existing", policy.rawValue]
            + (shape == .segmented ? ["--segments", "2"] : [])
            + ["-o", directory.url.path, server.url("/file").absoluteString]
    }

    private func isRight(_ name: String) -> Bool {
        FileManager.default.contents(atPath: path(name)) == Self.content
    }

    /// Returns the files that an interrupted run of the shape `resumed` leaves.
    private func leftover(_ shape: Shape) async throws -> [String: Data] {
        guard shape == .resumed else { return [:] }
        server.enqueue(
            .resource(Self.content, etag: "\"v1\"").resetting(afterBytes: 1_500_000))
        _ = try await ConvoyProcess(arguments(.overwrite, shape)).ended()
        var files: [String: Data] = [:]
        for name in try directory.names() { files[name] = FileManager.default.contents(atPath: path(name)) }
        #expect(files.keys.sorted() == [".file.convoy-part", ".file.convoy-resume"])
        return files
    }

    @Test(arguments: Policy.allCases, Shape.allCases)
    func nextRunLeavesExactlyTheFile(policy: Policy, shape: Shape) async throws {
        let left = try await leftover(shape)
        var kills = 0
        if Self.killCount == nil {
            for number in 1...2 { kills += try await kill(Self.names, nil, number, policy, shape, left) ? 1 : 0 }
        } else {
            for call in Self.all {
                for name in [".file.convoy-part", ".file.convoy-resume", ".file.convoy-resume-new", "file", ""] {
                    var number = 0
                    var isKilled = true
                    while isKilled, number < Self.killCount ?? 0 {
                        number += 1
                        isKilled = try await kill([call], name, number, policy, shape, left)
                        kills += isKilled ? 1 : 0
                    }
                }
            }
        }
        #expect(kills > 0)
        if Self.killCount != nil { print("\(policy), \(shape): killed at \(kills) calls") }
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
        try Data("edited".utf8).write(to: URL(filePath: path("file")))
        try FileManager.default.removeItem(atPath: path("file"))
        try await convoy(arguments(.skip, .plain))
        #expect(try directory.names() == ["file"])
        #expect(isRight("file"))
    }

    /// Kills the command at a call and runs it again; returns whether the command made that call.
    private func kill(
        _ calls: [String], _ name: String?, _ number: Int, _ policy: Policy, _ shape: Shape, _ left: [String: Data],
        lacksRenaming: Bool = false, isFinished: Bool = true
    ) async throws -> Bool {
        for name in try directory.names() { try FileManager.default.removeItem(atPath: path(name)) }
        for (name, data) in left { try data.write(to: URL(filePath: path(name))) }
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
        let next = try await ConvoyProcess(arguments(policy, shape)).ended()
        #expect(next.status == (policy == .fail && isThere ? 1 : 0), "\(moment): \(next.errors)")
        let made = policy == .rename && isThere ? ["file", "file-1"] : ["file"]
        let names = try directory.names().filter { policy != .updateIfChanged || $0 != ".file.convoy-version" }
        #expect(names == made, "after \(moment)")
        for name in made { #expect(isRight(name), "\(name) is wrong after \(moment)") }
        return true
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
