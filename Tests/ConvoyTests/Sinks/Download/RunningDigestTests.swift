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
        let error = #expect(throws: RequestError.self) { try digest.finish(of: "/d/file") }
        #expect(error?.code == .destinationUnwritable && error?.isRetryable == true)
        for word in [algorithm.name, "/d/file", "libcrypto", "try again"] {
            #expect(error?.message.contains(word) == true)
        }
    }
}
