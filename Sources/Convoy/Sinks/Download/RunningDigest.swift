// The digest of a file while its bytes are written.
import Foundation

final class RunningDigest {
    let algorithm: FileDigest.Algorithm
    private(set) var byteCount: Int64 = 0
    private var hash: (any FileHash)?

    init(_ algorithm: FileDigest.Algorithm, by hash: (any FileHash)? = nil) {
        (self.algorithm, self.hash) = (algorithm, hash ?? algorithm.function.make())
    }

    func update(_ data: Data) {
        byteCount += Int64(data.count)
        data.withUnsafeBytes { hash?.update($0) }
    }

    // Called last, once. The path is for the message. Throws when the system's code failed.
    func finish(of path: String) throws(RequestError) -> FileDigest {
        if let bytes = try? hash?.finish() { return FileDigest(algorithm, bytes: bytes) }
        throw RequestError(
            .destinationUnwritable,
            "the \(algorithm.name) digest of the file \(path) could not be computed: the system's libcrypto failed; the received bytes are kept; try again",
            isRetryable: true)
    }
}
