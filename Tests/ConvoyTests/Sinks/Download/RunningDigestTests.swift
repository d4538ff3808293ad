import Foundation
import Testing

@testable import Convoy

struct FailingHash: FileHash {
    func update(_ bytes: UnsafeRawBufferPointer) {}
    func finish() throws(HashFailure) -> [UInt8] { throw HashFailure() }
}

@Suite struct RunningDigestTests {
    /// Records the size of each update.
    private final class NotingHash: FileHash, Sendable {
        let counts = Locked<[Int]>([])
        func update(_ bytes: UnsafeRawBufferPointer) { counts.withLock { $0.append(bytes.count) } }
        func finish() -> [UInt8] { [] }
    }

    /// Stores the work that the hash has requested until the test runs it.
    private final class Asked: Sendable {
        let work = Locked<[@Sendable () -> Void]>([])
        func doAll() {
            let all = work.withLock { work in
                defer { work = [] }
                return work
            }
            for work in all { work() }
        }
    }

    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func piecesAreHashedInOrder(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let piece = FileVersion.seeded(seed, byteCount: 70_001)
        let hash = RunningDigest(.sha256)
        var direct = try #require(HashFunction.sha256.make())
        // The updates exceed the limit of queued bytes several times.
        for _ in 0..<120 {
            let data = piece.prefix(Int.random(in: 0...piece.count, using: &random))
            hash.update(data)
            data.withUnsafeBytes { direct.update($0) }
            guard Int.random(in: 0..<20, using: &random) == 0 else { continue }
            #expect(try hash.finish(of: "file").bytes == direct.finish())
        }
        #expect(try hash.finish(of: "file").bytes == direct.finish())
    }

    @Test func theCallerHashesPiecesThatNoThreadHasStarted() throws {
        let (noting, asked) = (NotingHash(), Asked())
        let hash = RunningDigest(.sha256, by: noting) { work in asked.work.withLock { $0.append(work) } }
        let piece = Data(count: RunningDigest.batchBytes)
        let most = RunningDigest.limitBytes / piece.count
        for count in 1...most {
            hash.update(piece)
            #expect(noting.counts.withLock { $0 } == [], "\(count) pieces")
        }
        hash.update(piece)
        #expect(noting.counts.withLock { $0.count } == most + 1)
        hash.update(Data(count: 5))
        _ = try hash.finish(of: "file")
        #expect(noting.counts.withLock { $0.last } == 5)
        #expect(asked.work.withLock { $0.count } == 1)
        // A thread that starts late finds no work, and the next update requests a thread again.
        asked.doAll()
        hash.update(piece)
        #expect(asked.work.withLock { $0.count } == 1)
        asked.doAll()
        #expect(noting.counts.withLock { $0.count } == most + 3)
    }

    @Test(arguments: FileDigest.Algorithm.allCases)
    func aFailureGivesAdvice(algorithm: FileDigest.Algorithm) {
        let digest = RunningDigest(algorithm, by: FailingHash())
        digest.update(FileVersion.seeded(3, byteCount: 300))
        let error = #expect(throws: RequestError.self) { try digest.finish(of: "/d/file") }
        #expect(error?.code == .destinationUnwritable && error?.isRetryable == true)
        for word in [algorithm.name, "/d/file", "libcrypto", "try again"] {
            #expect(error?.message.contains(word) == true)
        }
    }
}
