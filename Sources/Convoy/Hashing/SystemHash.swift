// The system's hash functions, which can use the hash instructions of the processor.
import Foundation

#if canImport(CryptoKit)
    import CryptoKit
#elseif canImport(CLibcurl)
    import CLibcurl
#endif

/// Makes the hash functions of the system.
///
/// The result is nil if the system has no such function or cannot make it.
enum SystemHash {
    static func make(_ algorithm: FileDigest.Algorithm) -> (any FileHash)? {
        #if canImport(CryptoKit)
            switch algorithm {
            case .sha256: CryptoKitHash<CryptoKit.SHA256>()
            case .sha512: CryptoKitHash<CryptoKit.SHA512>()
            }
        #elseif canImport(CLibcurl)
            LibcryptoHash(algorithm == .sha256 ? CONVOY_DIGEST_SHA256 : CONVOY_DIGEST_SHA512)
        #else
            nil
        #endif
    }
}

#if canImport(CryptoKit)
    struct CryptoKitHash<Function: CryptoKit.HashFunction>: FileHash {
        private var function = Function()

        mutating func update(_ bytes: UnsafeRawBufferPointer) { function.update(bufferPointer: bytes) }

        func finish() -> [UInt8] { Array(function.finalize()) }
    }
#elseif canImport(CLibcurl)
    /// A hash function of the libcrypto that is loaded at run time.
    final class LibcryptoHash: FileHash {
        private let digest: OpaquePointer

        /// Makes the function; nil when libcrypto is missing or cannot make it.
        init?(_ function: convoy_digest_function) {
            guard let digest = convoy_digest_create(function) else { return nil }
            self.digest = digest
        }

        deinit { convoy_digest_destroy(digest) }

        func update(_ bytes: UnsafeRawBufferPointer) {
            convoy_digest_update(digest, bytes.baseAddress, bytes.count)
        }

        func finish() throws(HashFailure) -> [UInt8] {
            var bytes = [UInt8](repeating: 0, count: Int(CONVOY_DIGEST_MAX_BYTES))
            let count = convoy_digest_finish(digest, &bytes)
            guard count > 0 else { throw HashFailure() }
            return Array(bytes.prefix(count))
        }
    }
#endif

/// Hashes on another thread while its caller continues.
///
/// The caller never waits for a thread to start, because all threads may be busy. If too many bytes wait and no thread
/// hashes, the caller hashes them itself. ``update(_:)`` waits only for a hashing thread that does not keep up. At most
/// about 2 MiB are in memory: 1 MiB that waits, and 1 MiB that is being hashed.
///
/// One thread at a time may use an instance.
final class BackgroundHash: @unchecked Sendable {
    // @unchecked: the thread that has set `isHashing` uses `hash`. `finish` also uses `hash`, when no bytes wait.
    // `condition` guards the other variables.

    /// The number of waiting bytes from which another thread is requested.
    static let batchBytes = 128 << 10
    /// The number of waiting bytes above which the caller waits for the hashing thread, or hashes the bytes itself.
    static let limitBytes = 1 << 20

    private let ask: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let condition = NSCondition()
    private var hash: any FileHash
    private var waiting: [Data] = []
    private var waitingBytes = 0
    private var isHashing = false
    /// Whether a thread was requested and has not started.
    private var isAsking = false

    /// - Parameter ask: runs a function asynchronously on another thread.
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

    /// Waits for the hashing thread, if any, then hashes the bytes that still wait.
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
