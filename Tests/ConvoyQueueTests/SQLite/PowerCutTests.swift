import ConvoySQLite
import Foundation
import Testing

@testable import ConvoyQueue

/// Cuts the power at any moment of adding and sending.
///
/// Every job that was reported as committed must exist afterwards.
///
/// `CONVOY_CUTS=400` in the environment tries that many moments, each with every ``DiskModel/Cut``.
@Suite(.serialized, .enabled(if: DiskRecorder.isUsable, DiskRecorder.reason)) struct PowerCutTests {
    private static let jobCount = 120

    private static func body(_ number: Int) -> Data {
        Data(String(repeating: "job-\(number) ", count: number % 10 == 0 ? 12_000 : 12).utf8)
    }

    @Test func nothingThatWasAcknowledgedIsMissingAfterAPowerCut() async throws {
        let momentCount = ProcessInfo.processInfo.environment["CONVOY_CUTS"].flatMap(Int.init) ?? 12
        let recorder = try DiskRecorder()
        let changes = try await history(recorder)
        var random = SeededGenerator(seed: UInt64(momentCount))
        let moments = Set((0...changes.count).shuffled(using: &random).prefix(momentCount))
        var (disk, said) = (DiskModel(), [String]())
        for moment in 0...changes.count {
            if moments.contains(moment) {
                for cut in DiskModel.Cut.allCases {
                    let contents = disk.contents(after: cut, &random)
                    try await check(contents, said, "moment \(moment) of \(changes.count), \(cut.rawValue)")
                }
            }
            guard moment < changes.count else { break }
            disk.apply(changes[moment])
            if case .said(let text) = changes[moment] { said += text.split(separator: "\n").map(String.init) }
        }
        // The record is complete if replaying all of it results in the actual files.
        let end = disk.contents(after: .kept, &random)
        #expect(said.count == Self.jobCount)
        #expect(try contents(of: recorder.root) == Self.withoutIndex(end))
    }

    /// Adds and sends in four processes.
    ///
    /// The adding processes do not close the database.
    private func history(_ recorder: DiskRecorder) async throws -> [DiskChange] {
        let server = try KeyedServer()
        let (file, url) = (recorder.file.path, server.server.url("/job").absoluteString)
        func run(_ arguments: [String]) throws -> ChildProcess {
            try ChildProcess.queue(arguments, environment: recorder.environment())
        }
        let half = Self.jobCount / 2
        try await run(["add", file, url, "1", "\(half)"]).ended()
        try await run(["run", file]).ended()
        try await run(["share", file, url, "\(half + 1)", "\(Self.jobCount)"]).ended()
        try await run(["run", file]).ended()
        #expect(server.all.keys.count == Self.jobCount)
        return try recorder.changes()
    }

    /// Opens the files after a power failure, as the first program after a boot.
    private func check(_ contents: DiskModel.Contents, _ said: [String], _ moment: String) async throws {
        let place = try StorePlace()
        try Self.write(Self.withoutIndex(contents), to: place.directory)
        do {
            let store = try SQLiteStore(at: place.file, clock: place.clock, boot: "after the cut")
            let whole = try SQLiteConnection(place.file.path).rows("PRAGMA integrity_check") { $0.text(0) }
            #expect(whole == ["ok"], "\(moment)")
            var unfinished = 0
            let records = try await store.jobs(.all, after: 0, limit: 1_000)
            for record in records where !record.state.isFinished {
                unfinished += 1
                let number = Int(record.job.id.dropFirst(4)) ?? 0
                // The stored job refers to a body file of the store instead of the original bytes.
                let kept = try await store.job(record.job.id)?.job.request.body
                let bytes: Data? =
                    switch kept {
                    case .data(let data): data
                    case .file(let file): try? Data(contentsOf: file)
                    case nil: nil
                    }
                #expect(bytes == Self.body(number), "\(moment): the body of \(record.job.id)")
            }
            let missing = Set(said).subtracting(records.map(\.job.id))
            #expect(missing.isEmpty, "\(moment): \(missing.sorted())")
            #expect(try await store.status().unfinishedCount == unfinished, "\(moment)")
            #expect(try await store.claim(1_000).count == unfinished, "\(moment)")
            await store.close()
        } catch { Issue.record("\(moment): \(error)") }
    }

    /// The index of the log is shared memory, which does not survive a boot.
    private static func withoutIndex(_ contents: DiskModel.Contents) -> DiskModel.Contents {
        var contents = contents
        contents.files = contents.files.filter { !$0.key.hasSuffix("-shm") }
        return contents
    }

    private static func write(_ contents: DiskModel.Contents, to root: URL) throws {
        for directory in contents.directories.sorted() {
            try FileManager.default.createDirectory(
                at: root.appending(path: directory), withIntermediateDirectories: true)
        }
        for (path, bytes) in contents.files { try bytes.write(to: root.appending(path: path)) }
    }

    private func contents(of root: URL) throws -> DiskModel.Contents {
        var contents = DiskModel.Contents()
        for path in try FileManager.default.subpathsOfDirectory(atPath: root.path) {
            let url = root.appending(path: path)
            if try url.resourceValues(forKeys: [.isDirectoryKey]).isDirectory == true {
                contents.directories.insert(path)
            } else {
                contents.files[path] = try Data(contentsOf: url)
            }
        }
        return Self.withoutIndex(contents)
    }
}
