import Foundation
import Testing

@testable import Convoy

struct FailingHash: FileHash {
    func update(_ bytes: UnsafeRawBufferPointer) {}
    func finish() throws(HashFailure) -> [UInt8] { throw HashFailure() }
}

@Suite struct RunningDigestTests {
    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func piecesAreHashedInOrder(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let piece = FileVersion.seeded(seed, byteCount: 70_001)
        let hash = RunningDigest(.sha256)
        var direct = try #require(HashFunction.sha256.make())
        for _ in 0..<120 {
            let data = piece.prefix(Int.random(in: 0...piece.count, using: &random))
            hash.update(data)
            data.withUnsafeBytes { direct.update($0) }
        }
        #expect(try hash.finish(of: "file").bytes == direct.finish())
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
