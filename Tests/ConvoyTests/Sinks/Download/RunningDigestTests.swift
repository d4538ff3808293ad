import Foundation
import Testing

@testable import Convoy

/// A hash that fails at its end.
struct FailingHash: FileHash {
    func update(_ bytes: UnsafeRawBufferPointer) {}
    func finish() throws(HashFailure) -> [UInt8] { throw HashFailure() }
}

@Suite struct RunningDigestTests {
    private let message = FileVersion.seeded(3, byteCount: 300)

    private func whole(_ algorithm: FileDigest.Algorithm, _ message: Data) -> FileDigest {
        switch algorithm {
        case .sha256: .ofBytes(message)
        case .sha512: .sha512(message.sha512)
        }
    }

    @Test(arguments: FileDigest.Algorithm.allCases)
    func everySplitGivesTheSameDigestAndUpdatesMayFollow(algorithm: FileDigest.Algorithm) throws {
        for cut in 0...message.count {
            let digest = RunningDigest(algorithm)
            #expect(digest.byteCount == 0)
            digest.update(message.prefix(cut))
            #expect(digest.byteCount == cut)
            #expect(try digest.finish(of: "f") == whole(algorithm, message.prefix(cut)), "\(cut) bytes")
            #expect(try digest.finish(of: "f") == whole(algorithm, message.prefix(cut)), "\(cut) bytes")
            digest.update(message.dropFirst(cut))
            #expect(try digest.finish(of: "f") == whole(algorithm, message), "cut at \(cut)")
        }
    }

    @Test(arguments: FileDigest.Algorithm.allCases)
    func aFailureGivesAdvice(algorithm: FileDigest.Algorithm) {
        let digest = RunningDigest(algorithm, by: FailingHash())
        digest.update(message)
        do throws(RequestError) {
            _ = try digest.finish(of: "/d/file")
            Issue.record("there is a digest")
        } catch {
            #expect(error.code == .destinationUnwritable)
            #expect(error.isRetryable)
            for word in [algorithm.name, "/d/file", "libcrypto", "try again"] { #expect(error.message.contains(word)) }
        }
    }
}
