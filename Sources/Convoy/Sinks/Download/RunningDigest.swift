// The digest of a file while it arrives.
import Foundation

/// A digest in the making: by the system's code, which is several times as fast as Convoy's own, or else by that.
///
/// Used by one thread at a time.
final class RunningDigest {
    let algorithm: FileDigest.Algorithm
    /// How many bytes it has taken.
    private(set) var byteCount: Int64 = 0
    private let hash: BackgroundHash

    convenience init(_ algorithm: FileDigest.Algorithm) { self.init(algorithm, by: SystemHash.make(algorithm)) }

    /// - Parameter systemHash: a new hash of that function; nil where the system has none.
    init(_ algorithm: FileDigest.Algorithm, by systemHash: (any FileHash)?) {
        self.algorithm = algorithm
        hash = BackgroundHash(systemHash ?? (algorithm == .sha256 ? SHA256() : SHA512()))
    }

    /// Takes the next bytes; how they are cut makes no difference.
    ///
    /// Large ones are hashed while the caller goes on.
    func update(_ data: Data) {
        hash.update(data)
        byteCount += Int64(data.count)
    }

    /// The digest of everything so far; feeding may go on afterwards.
    ///
    /// - Parameter path: the file, for the message.
    /// - Throws: when the system's code has failed: another digest, by which it may be refused at once, can succeed.
    func finish(of path: String) throws(RequestError) -> FileDigest {
        do throws(HashFailure) { return FileDigest(algorithm, bytes: try hash.finish()) } catch {
            throw RequestError(
                .destinationUnwritable,
                "the \(algorithm.name) digest of the file \(path) could not be made: the system's libcrypto failed; what is there is kept, try again",
                isRetryable: true)
        }
    }
}
