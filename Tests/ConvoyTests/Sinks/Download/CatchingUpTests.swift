import Foundation
import Testing

@testable import Convoy

/// Tests the digest of a part that is continued.
@Suite(.timeLimit(.minutes(5))) struct CatchingUpTests {
    private let directory: TemporaryDirectory
    private static let content = {
        // The lengths of the pieces do not match the blocks that the download reads.
        let piece = FileVersion.seeded(1, byteCount: 100_003)
        return (0...Int(Download.catchUpBytes) * 3 / piece.count).reduce(into: Data()) { data, _ in data += piece }
    }()
    private static let digest = FileDigest.ofBytes(content)
    /// The part is two and a half times as long as the bytes that are read between two writes.
    private static let keptBytes = Download.catchUpBytes * 5 / 2

    init() throws { directory = try TemporaryDirectory() }

    /// Leaves the first bytes of a download as its part, and begins the rest.
    private func beginRest() async throws -> Download {
        let cut = StubServer {
            FileVersion(Self.content).answer($0, sending: Int(Self.keptBytes), thenFailing: .cut)
        }
        let sending = Sending(Request.stub("file").saved(to: directory.file("target")), over: cut.transport)
        #expect(try await sending.error().code == .connectionLost)
        #expect(try directory.entries == [".target.convoy-part", ".target.convoy-resume"])
        let download = Download(DownloadPlan(url: directory.file("target"), digest: Self.digest))
        let request = try PreparedRequest(Request<Data>.stub("file").core, baseURL: nil)
        let result = await withCheckedContinuation { continuation in
            download.begin(request, asksForWhole: false) { continuation.resume(returning: $0) }
        }
        _ = try result.get()
        try download.executor.run {
            let answer = DownloadAnswer.body(from: Self.keptBytes, totalBytes: Int64(Self.content.count))
            try download.beginBody(answer, ResponseHead(statusCode: 206), of: request)
        }
        return download
    }

    /// The part is read in pieces between the writes, so that the connection is not paused for long.
    @Test func partIsReadAgainBitByBitBetweenTheWrites() async throws {
        let download = try await beginRest()
        try download.executor.run {
            #expect(download.digest == nil)
            var rest = Self.content.dropFirst(Int(Self.keptBytes))
            for expected in [
                Download.catchUpBytes, Download.catchUpBytes * 2, Self.keptBytes + 300, Self.keptBytes + 400,
            ] {
                try download.write(rest.prefix(100))
                rest = rest.dropFirst(100)
                #expect(download.digest?.byteCount == expected)
            }
            try download.write(rest)
            try download.verify()
        }
    }

    @Test func partThatIsNotCaughtUpWithIsReadAtTheEnd() async throws {
        let download = try await beginRest()
        try download.executor.run {
            try download.write(Self.content.dropFirst(Int(Self.keptBytes)))
            #expect(download.digest?.byteCount == Download.catchUpBytes)
            try download.verify()
        }
    }

    @Test func readingEndsWhenTheDownloadIsStopped() async throws {
        let download = try await beginRest()
        try download.executor.run {
            try download.write(Self.content.dropFirst(Int(Self.keptBytes)))
            download.stop()
            #expect(#expect(throws: RequestError.self) { try download.verify() }?.code == .cancelled)
            #expect(download.digest?.byteCount == Download.catchUpBytes)
        }
    }

    /// A second `verify()` reads the part again and computes a new digest.
    @Test func digestThatFailsKeepsThePart() async throws {
        let download = try await beginRest()
        try download.executor.run {
            try download.write(Self.content.dropFirst(Int(Self.keptBytes)))
            download.digest = RunningDigest(.sha256, by: FailingHash())
            let error = #expect(throws: RequestError.self) { try download.verify() }
            #expect(error?.message.contains("try again") == true)
            #expect(try Data(contentsOf: directory.file(".target.convoy-part")) == Self.content)
            try download.verify()
        }
    }
}
