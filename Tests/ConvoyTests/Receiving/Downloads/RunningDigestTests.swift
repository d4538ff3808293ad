import Foundation
import Testing

@testable import Convoy

@Suite struct RunningDigestTests {
    private let message = (0..<300).map { UInt8(truncatingIfNeeded: $0 * 13 + 1) }

    private func whole(_ algorithm: FileDigest.Algorithm) -> FileDigest {
        switch algorithm {
        case .sha256: .sha256(Data(SHA256.digest(of: message)))
        case .sha512: .sha512(Data(SHA512.digest(of: message)))
        }
    }

    private func digest(_ algorithm: FileDigest.Algorithm, of bytes: some ContiguousBytes) -> RunningDigest {
        var digest = RunningDigest(algorithm)
        bytes.withUnsafeBytes { digest.update($0) }
        return digest
    }

    @Test(arguments: FileDigest.Algorithm.allCases)
    func digestIsThatOfTheFunction(algorithm: FileDigest.Algorithm) {
        let digest = digest(algorithm, of: message)
        #expect(digest.finish() == whole(algorithm))
        #expect(digest.finish().algorithm == algorithm)
        #expect(digest.algorithm == algorithm)
    }

    @Test(arguments: FileDigest.Algorithm.allCases)
    func savedStateGoesOnWhereItWas(algorithm: FileDigest.Algorithm) throws {
        for cut in 0...message.count {
            let saved = digest(algorithm, of: message[..<cut]).savedState
            #expect(saved.count <= 300)
            var resumed = try #require(RunningDigest(algorithm, savedState: saved))
            #expect(resumed.algorithm == algorithm)
            #expect(resumed.byteCount == cut)
            message[cut...].withUnsafeBytes { resumed.update($0) }
            #expect(resumed.finish() == whole(algorithm), "cut at \(cut)")
            #expect(resumed.byteCount == message.count)
        }
    }

    @Test(arguments: FileDigest.Algorithm.allCases)
    func bytesAreCounted(algorithm: FileDigest.Algorithm) {
        var digest = RunningDigest(algorithm)
        #expect(digest.byteCount == 0)
        digest.update(UnsafeRawBufferPointer(start: nil, count: 0))
        #expect(digest.byteCount == 0)
        for count in 1...300 {
            withUnsafeBytes(of: UInt8(7)) { digest.update($0) }
            #expect(digest.byteCount == count)
        }
    }

    @Test(arguments: FileDigest.Algorithm.allCases)
    func copyGoesItsOwnWay(algorithm: FileDigest.Algorithm) {
        var first = digest(algorithm, of: message[..<200])
        let second = first
        message[200...].withUnsafeBytes { first.update($0) }
        #expect(first.finish() == whole(algorithm))
        #expect(second.byteCount == 200)
        #expect(second.finish() == digest(algorithm, of: message[..<200]).finish())
    }

    @Test func stateOfTheOtherFunctionIsRefused() {
        #expect(RunningDigest(.sha512, savedState: RunningDigest(.sha256).savedState) == nil)
        #expect(RunningDigest(.sha256, savedState: RunningDigest(.sha512).savedState) == nil)
    }

    @Test(arguments: FileDigest.Algorithm.allCases)
    func damagedStateIsRefused(algorithm: FileDigest.Algorithm) {
        let good = digest(algorithm, of: message).savedState
        for position in good.indices {
            var bad = good
            bad[position] ^= 0x10
            #expect(RunningDigest(algorithm, savedState: bad) == nil)
        }
        for bad in [Data(), Data([0]), good.dropLast(), good + [0], Data(repeating: 0xFF, count: 100_000)] {
            #expect(RunningDigest(algorithm, savedState: bad) == nil)
        }
    }

    /// As many bytes as a state may tell of at all.
    @Test func hugeCountsDoNotTrap() throws {
        let count: UInt64 = 1 << 61 - 64
        let bytes = SHA256().savedState.dropLast(16) + count.bigEndianBytes
        var digest = try #require(
            RunningDigest(.sha256, savedState: bytes + SHA256.digest(of: bytes).prefix(8)))
        #expect(digest.byteCount == Int64(count))
        message.withUnsafeBytes { digest.update($0) }
        #expect(digest.byteCount == Int64(count) + 300)
        #expect(digest.finish().defect == nil)
    }
}
