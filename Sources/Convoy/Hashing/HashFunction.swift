// Hash functions of CryptoKit or libcrypto.
import Foundation

#if canImport(CryptoKit)
    import CryptoKit
#elseif canImport(CLibcurl)
    import CLibcurl
#endif

enum HashFunction: String, CaseIterable, Sendable {
    case md5 = "MD5"
    case sha256 = "SHA-256"
    case sha512 = "SHA-512"
    /// FIPS 180-4, section 6.7.
    case sha512Truncated256 = "SHA-512/256"

    /// Its ``FileHash/finish()`` fails if the system does not have the function.
    func make() -> any FileHash {
        #if canImport(CryptoKit)
            switch self {
            case .md5: CryptoKitHash<Insecure.MD5>()
            case .sha256: CryptoKitHash<SHA256>()
            case .sha512: CryptoKitHash<SHA512>()
            case .sha512Truncated256: MissingHash()
            }
        #elseif canImport(CLibcurl)
            switch self {
            case .md5: LibcryptoHash(CONVOY_DIGEST_MD5) ?? MissingHash()
            case .sha256: LibcryptoHash(CONVOY_DIGEST_SHA256) ?? MissingHash()
            case .sha512: LibcryptoHash(CONVOY_DIGEST_SHA512) ?? MissingHash()
            case .sha512Truncated256: LibcryptoHash(CONVOY_DIGEST_SHA512_256) ?? MissingHash()
            }
        #else
            MissingHash()
        #endif
    }

    func digest(of bytes: some ContiguousBytes) throws(HashFailure) -> [UInt8] {
        var hash = make()
        bytes.withUnsafeBytes { hash.update($0) }
        return try hash.finish()
    }

    var defect: String? {
        make() is MissingHash
            ? "this system has no \(rawValue): Convoy computes it with CryptoKit, or with libcrypto of OpenSSL; install it"
            : nil
    }
}

protocol FileHash {
    mutating func update(_ bytes: UnsafeRawBufferPointer)
    /// More bytes may be added afterwards, but not after an error.
    func finish() throws(HashFailure) -> [UInt8]
}

/// The system's library could not compute a digest: it is missing, memory was exhausted, or an OpenSSL provider failed.
struct HashFailure: Error {}

private struct MissingHash: FileHash {
    func update(_ bytes: UnsafeRawBufferPointer) {}
    func finish() throws(HashFailure) -> [UInt8] { throw HashFailure() }
}

#if canImport(CryptoKit)
    private struct CryptoKitHash<Function: CryptoKit.HashFunction>: FileHash {
        private var function = Function()

        mutating func update(_ bytes: UnsafeRawBufferPointer) { function.update(bufferPointer: bytes) }

        func finish() -> [UInt8] { Array(function.finalize()) }
    }
#elseif canImport(CLibcurl)
    private final class LibcryptoHash: FileHash {
        private let digest: OpaquePointer

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

extension Sequence<UInt8> {
    var hexadecimal: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

// Hashes on another thread while its caller, one thread at a time, continues. The caller never waits for a thread to
// start, because all threads may be busy. If too many bytes wait and no thread hashes, the caller hashes them itself.
// `update` waits only for a hashing thread that does not keep up. At most about 2 MiB are in memory: 1 MiB that waits,
// and 1 MiB that is being hashed.
final class BackgroundHash: @unchecked Sendable {
    // @unchecked: the thread that has set `isHashing` uses `hash`. `finish` also uses `hash`, when no bytes wait.
    // `condition` guards the other variables.

    /// From this number of waiting bytes on, another thread is requested.
    static let batchBytes = 128 << 10
    /// Above this number, the caller waits for the hashing thread, or hashes the bytes itself.
    static let limitBytes = 1 << 20

    private let ask: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let condition = NSCondition()
    private var hash: any FileHash
    private var waiting: [Data] = []
    private var waitingBytes = 0
    private var isHashing = false
    private var isAsking = false

    init(
        _ hash: any FileHash,
        ask: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void = {
            DispatchQueue.global().async(execute: $0)
        }
    ) {
        self.hash = hash
        self.ask = ask
    }

    func update(_ data: Data) {
        condition.lock()
        waiting.append(data)
        waitingBytes += data.count
        let asks = waitingBytes >= Self.batchBytes && !isAsking && !isHashing
        isAsking = isAsking || asks
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

    func finish() throws(HashFailure) -> [UInt8] {
        catchUp()
        return try hash.finish()
    }

    private func catchUp() {
        condition.lock()
        while isHashing { condition.wait() }
        hashWaiting()
        condition.unlock()
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
            for piece in pieces { piece.withUnsafeBytes { hash.update($0) } }
            condition.lock()
        }
        isHashing = false
        condition.signal()
    }
}
