// The digest of a file, computed while it arrives, or of an existing file.
import Foundation

/// Computes a digest with the system's code, or with Convoy's own, which is several times slower.
///
/// The owner uses a digest on one thread at a time.
final class RunningDigest {
    let algorithm: FileDigest.Algorithm
    /// The number of hashed bytes.
    private(set) var byteCount: Int64 = 0
    private let hash: BackgroundHash

    convenience init(_ algorithm: FileDigest.Algorithm) { self.init(algorithm, by: SystemHash.make(algorithm)) }

    /// - Parameter systemHash: a new hash of the algorithm; nil when the system has none.
    init(_ algorithm: FileDigest.Algorithm, by systemHash: (any FileHash)?) {
        self.algorithm = algorithm
        hash = BackgroundHash(systemHash ?? (algorithm == .sha256 ? SHA256() : SHA512()))
    }

    /// Adds bytes.
    ///
    /// The division of the bytes into chunks makes no difference.
    ///
    /// Another thread hashes the bytes in batches while the caller continues; see ``BackgroundHash``.
    func update(_ data: Data) {
        hash.update(data)
        byteCount += Int64(data.count)
    }

    /// The digest of all bytes so far.
    ///
    /// More bytes may be added afterwards.
    ///
    /// - Parameter path: the file, for the message.
    /// - Throws: when the system's code failed. A new digest may succeed with Convoy's own code.
    func finish(of path: String) throws(RequestError) -> FileDigest {
        do throws(HashFailure) { return FileDigest(algorithm, bytes: try hash.finish()) } catch {
            throw RequestError(
                .destinationUnwritable,
                "the \(algorithm.name) digest of the file \(path) could not be computed: the system's libcrypto failed; the received bytes are kept; try again",
                isRetryable: true)
        }
    }
}

extension FileDigest {
    /// Reads a file and computes its digest.
    ///
    /// - Parameter isWanted: called before each MiB. If it returns false, the result is nil.
    static func ofFile(
        _ path: String, _ algorithm: Algorithm, while isWanted: () -> Bool
    ) throws(RequestError) -> FileDigest? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .file("could not be read", path, errno) }
        defer { close(descriptor) }
        let digest = RunningDigest(algorithm)
        while isWanted() {
            var data = Data(count: 1 << 20)
            let count = data.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
            if count > 0 { digest.update(data.prefix(count)) }
            if count == 0 { return try digest.finish(of: path) }
            if count < 0, errno != EINTR { throw .file("could not be read", path, errno) }
        }
        return nil
    }
}
