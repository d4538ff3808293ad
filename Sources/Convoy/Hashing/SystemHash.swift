// The system's hash functions, which can use the hash instructions of the processor.

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
