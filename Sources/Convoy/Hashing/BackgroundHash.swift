// A hash function that works while its bytes are written.
import Foundation

/// Hashes on another thread while its caller goes on.
///
/// The caller never waits for a thread that has yet to begin: there may be none left, and then it hashes for itself. It waits
/// only where a thread is hashing and does not keep up, so that at most some 2 MiB are in memory.
///
/// Used by one thread at a time.
final class BackgroundHash: @unchecked Sendable {
    // @unchecked: `hash` is touched by the thread that has set `isHashing`, and the other variables under `condition`.

    /// From here on another thread is worth asking for.
    static let batchBytes = 128 << 10
    /// More than this does not wait.
    static let limitBytes = 1 << 20

    private let ask: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let condition = NSCondition()
    private var hash: any FileHash
    private var waiting: [Data] = []
    private var waitingBytes = 0
    private var isHashing = false
    /// Whether a thread has been asked for and has not begun.
    private var isAsking = false

    /// - Parameter ask: does something on another thread, some time.
    init(
        _ hash: any FileHash,
        ask: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void = {
            DispatchQueue.global().async(execute: $0)
        }
    ) {
        self.hash = hash
        self.ask = ask
    }

    /// Takes the next bytes; how they are cut makes no difference.
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

    /// The digest of everything so far; feeding may go on afterwards.
    func finish() throws(HashFailure) -> [UInt8] {
        catchUp()
        return try hash.finish()
    }

    /// Returns when nothing waits and no thread hashes.
    private func catchUp() {
        condition.lock()
        while isHashing { condition.wait() }
        hashWaiting()
        condition.unlock()
    }

    /// Hashes what waits, unless a thread does; called with the lock, which is not held meanwhile.
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
