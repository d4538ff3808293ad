// A hash function that works on another thread while its bytes are written.
import Foundation

/// Hashes on another thread while its caller continues.
///
/// The caller never waits for a thread to start, because all threads may be busy. If too many bytes wait and no thread
/// hashes, the caller hashes them itself. The caller waits only for a hashing thread that does not keep up, so at most
/// about 2 MiB are in memory.
///
/// One thread at a time may use an instance.
final class BackgroundHash: @unchecked Sendable {
    // @unchecked: only the thread that has set `isHashing` touches `hash`. `condition` guards the other variables.

    /// The number of waiting bytes from which another thread is requested.
    static let batchBytes = 128 << 10
    /// The maximum number of bytes that wait.
    static let limitBytes = 1 << 20

    private let ask: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let condition = NSCondition()
    private var hash: any FileHash
    private var waiting: [Data] = []
    private var waitingBytes = 0
    private var isHashing = false
    /// Whether a thread was requested and has not started.
    private var isAsking = false

    /// - Parameter ask: runs a function on another thread at some time.
    init(
        _ hash: any FileHash,
        ask: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void = {
            DispatchQueue.global().async(execute: $0)
        }
    ) {
        self.hash = hash
        self.ask = ask
    }

    /// Adds bytes.
    ///
    /// The division of the bytes into chunks makes no difference.
    func update(_ data: Data) {
        condition.lock()
        waiting.append(data)
        waitingBytes += data.count
        let asks = waitingBytes >= Self.batchBytes && !isAsking && !isHashing
        if asks { isAsking = true }
        while isHashing, waitingBytes > Self.limitBytes { condition.wait() }
        let isFull = waitingBytes > Self.limitBytes
        condition.unlock()
        if asks {
            ask {
                self.condition.lock()
                self.isAsking = false
                self.hashWaiting()
                self.condition.unlock()
            }
        }
        if isFull { catchUp() }
    }

    /// The digest of all bytes so far.
    ///
    /// More bytes may be added afterwards.
    func finish() throws(HashFailure) -> [UInt8] {
        catchUp()
        return try hash.finish()
    }

    /// Returns when no bytes wait and no thread hashes.
    private func catchUp() {
        condition.lock()
        while isHashing { condition.wait() }
        hashWaiting()
        condition.unlock()
    }

    /// Hashes the waiting bytes, unless another thread does.
    ///
    /// Called with the lock, which is released during hashing.
    private func hashWaiting() {
        guard !isHashing else { return }
        isHashing = true
        while !waiting.isEmpty {
            let pieces = waiting
            (waiting, waitingBytes) = ([], 0)
            condition.signal()
            condition.unlock()
            for piece in pieces { piece.withUnsafeBytes { hash.update($0) } }
            condition.lock()
        }
        isHashing = false
        condition.signal()
    }
}
