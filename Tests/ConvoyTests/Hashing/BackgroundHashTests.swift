import Foundation
import Testing

@testable import Convoy

@Suite struct BackgroundHashTests {
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
        let hash = BackgroundHash(HashFunction.sha256.make())
        var direct = HashFunction.sha256.make()
        // The updates exceed the limit of queued bytes several times.
        for _ in 0..<120 {
            let data = piece.prefix(Int.random(in: 0...piece.count, using: &random))
            hash.update(data)
            data.withUnsafeBytes { direct.update($0) }
            if Int.random(in: 0..<20, using: &random) == 0 { #expect(try hash.finish() == direct.finish()) }
        }
        #expect(try hash.finish() == direct.finish())
    }

    @Test func theCallerHashesPiecesThatNoThreadHasStarted() throws {
        let (noting, asked) = (NotingHash(), Asked())
        let hash = BackgroundHash(noting) { work in asked.work.withLock { $0.append(work) } }
        let piece = Data(count: BackgroundHash.batchBytes)
        let most = BackgroundHash.limitBytes / piece.count
        for count in 1...most {
            hash.update(piece)
            #expect(noting.counts.withLock { $0 } == [], "\(count) pieces")
        }
        hash.update(piece)
        #expect(noting.counts.withLock { $0.count } == most + 1)
        hash.update(Data(count: 5))
        _ = try hash.finish()
        #expect(noting.counts.withLock { $0.last } == 5)
        #expect(asked.work.withLock { $0.count } == 1)
        // A thread that starts late finds no work, and the next update requests a thread again.
        asked.doAll()
        hash.update(piece)
        #expect(asked.work.withLock { $0.count } == 1)
        asked.doAll()
        #expect(noting.counts.withLock { $0.count } == most + 3)
    }
}
