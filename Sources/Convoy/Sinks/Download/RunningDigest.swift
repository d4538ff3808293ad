// The digest of a file while its bytes are written.
import Foundation

// Hashes on another thread while its caller, one thread at a time, continues. The caller never waits for a thread to
// start, because all threads may be busy. If too many bytes wait and no thread hashes, the caller hashes them itself.
// `update` waits only for a hashing thread that does not keep up. At most about 2 MiB are in memory: 1 MiB that waits,
// and 1 MiB that is being hashed.
final class RunningDigest: @unchecked Sendable {
    // @unchecked: only the caller uses `byteCount`. The thread that has set `isHashing` uses `hash`. `finish` also uses
    // `hash`, when no bytes wait. `condition` guards the other variables.

    /// From this number of waiting bytes on, another thread is requested.
    static let batchBytes = 128 << 10
    /// Above this number, the caller waits for the hashing thread, or hashes the bytes itself.
    static let limitBytes = 1 << 20

    let algorithm: FileDigest.Algorithm
    private(set) var byteCount: Int64 = 0
    private let ask: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let condition = NSCondition()
    private var hash: (any FileHash)?
    private var waiting: [Data] = []
    private var waitingBytes = 0
    private var (isHashing, isAsking) = (false, false)

    init(
        _ algorithm: FileDigest.Algorithm, by hash: (any FileHash)? = nil,
        ask: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void = {
            DispatchQueue.global().async(execute: $0)
        }
    ) {
        (self.algorithm, self.hash, self.ask) = (algorithm, hash ?? algorithm.function.make(), ask)
    }

    func update(_ data: Data) {
        byteCount += Int64(data.count)
        condition.lock()
        waiting.append(data)
        waitingBytes += data.count
        while isHashing, waitingBytes > Self.limitBytes { condition.wait() }
        if waitingBytes > Self.limitBytes { hashWaiting() }
        let asks = waitingBytes >= Self.batchBytes && !isAsking && !isHashing
        if asks { isAsking = true }
        condition.unlock()
        guard asks else { return }
        ask {
            self.condition.lock()
            self.isAsking = false
            self.hashWaiting()
            self.condition.unlock()
        }
    }

    // More bytes may be added afterwards. The path is for the message. Throws when the system's code failed.
    func finish(of path: String) throws(RequestError) -> FileDigest {
        condition.lock()
        while isHashing { condition.wait() }
        hashWaiting()
        condition.unlock()
        if let bytes = try? hash?.finish() { return FileDigest(algorithm, bytes: bytes) }
        throw RequestError(
            .destinationUnwritable,
            "the \(algorithm.name) digest of the file \(path) could not be computed: the system's libcrypto failed; the received bytes are kept; try again",
            isRetryable: true)
    }

    /// Called with the lock, which is released during hashing.
    private func hashWaiting() {
        guard !isHashing else { return }
        isHashing = true
        while !waiting.isEmpty {
            let pieces = waiting
            (waiting, waitingBytes) = ([], 0)
            condition.signal()
            condition.unlock()
            for piece in pieces { piece.withUnsafeBytes { hash?.update($0) } }
            condition.lock()
        }
        isHashing = false
        condition.signal()
    }
}
