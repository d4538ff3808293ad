import Foundation
import Testing

@testable import Convoy

struct FailingHash: FileHash {
    func update(_ bytes: UnsafeRawBufferPointer) {}
    func finish() throws(HashFailure) -> [UInt8] { throw HashFailure() }
}

@Suite struct RunningDigestTests {
    private let message = FileVersion.seeded(3, byteCount: 300)

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
