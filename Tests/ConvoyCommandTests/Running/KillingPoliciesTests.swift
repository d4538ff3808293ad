import ConvoyTesting
import Foundation
import Testing

/// Kills the command at each call that changes files, for every policy and every kind of transfer.
///
/// The next run must leave the complete file and nothing else. `CONVOY_KILLS=20` in the environment kills at the
/// first 20 calls of each kind for each file. By default the test kills at the first two calls that change names.
@Suite(.serialized, .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/strace"), "strace is missing"))
struct KillingPoliciesTests {
    enum Policy: String, CaseIterable { case overwrite, skip, fail, rename, updateIfChanged }
    enum Shape: String, CaseIterable { case plain, segmented, resumed }

    private static let strace = "/usr/bin/strace"
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

    /// Returns the files that an interrupted run leaves.
    ///
    /// Only the shape `resumed` has such files.
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
        let isKilled = try await kill(
            [call], ".file.convoy-part", 1, policy, .plain, [:],
            ["-e", "inject=renameat2:error=EINVAL"])
        #expect(isKilled)
    }

    /// The command does not continue a part that is a hard link of a file that was changed.
    @Test func aChangedFileIsNotContinuedAsItsPart() async throws {
        _ = try await kill(
            ["unlink"], ".file.convoy-part", 1, .skip, .plain, [:], ["-e", "inject=renameat2:error=EINVAL"],
            isFinished: false)
        try Data("edited".utf8).write(to: URL(filePath: path("file")))
        try FileManager.default.removeItem(atPath: path("file"))
        let ending = try await ConvoyProcess(arguments(.skip, .plain)).ended()
        #expect(ending.status == 0)
        #expect(try directory.names() == ["file"])
        #expect(isRight("file"))
    }

    /// Kills the command at a call and runs it again.
    ///
    /// Returns whether the command made that call.
    private func kill(
        _ calls: [String], _ name: String?, _ number: Int, _ policy: Policy, _ shape: Shape, _ left: [String: Data],
        _ more: [String] = [], isFinished: Bool = true
    ) async throws -> Bool {
        for name in try directory.names() { try FileManager.default.removeItem(atPath: path(name)) }
        for (name, data) in left { try data.write(to: URL(filePath: path(name))) }
        let traced = more.isEmpty ? calls : calls + ["renameat2"]
        // This option keeps other calls fast, but with it strace cannot inject an error for one path.
        let filter = more.isEmpty ? ["--seccomp-bpf"] : []
        let child = try ConvoyProcess(
            under: Self.strace,
            filter + [
                "-f", "-qq", "-o", "/dev/null", "-e", "trace=\(traced.joined(separator: ","))", "-e",
                "inject=\(calls.joined(separator: ",")):signal=KILL:when=\(number)",
            ] + more + (name.map { ["-P", $0.isEmpty ? directory.url.path : path($0)] } ?? []),
            arguments(policy, shape))
        let ending = try await child.ended(mayBeKilled: true)
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
        let child = try ConvoyProcess(
            under: Self.strace,
            [
                "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:error=EIO",
                "-P",
                directory.url.path,
            ], arguments(.overwrite, shape))
        let ending = try await child.ended()
        #expect(ending.status == 1)
        #expect(ending.errors.contains("could not be written to the disk"), "\(ending.errors)")
        #expect(try directory.names() == ["file"])
        #expect(isRight("file"))
    }
}
