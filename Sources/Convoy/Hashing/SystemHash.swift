// The hash functions of the system, which use the instructions that the processor has for them.

#if canImport(CryptoKit)
    import CryptoKit
#elseif canImport(CLibcurl)
    import CLibcurl
#endif

/// A hash function that is fed piece by piece, and may fail where it is not Convoy's own code.
protocol FileHash {
    /// Takes the next bytes; how they are cut makes no difference.
    mutating func update(_ bytes: UnsafeRawBufferPointer)
    /// The digest of everything so far; feeding may go on afterwards, and helps no more after an error.
    func finish() throws(HashFailure) -> [UInt8]
}

/// The system's code made no digest: no memory, or a provider of OpenSSL that refuses.
struct HashFailure: Error {}

/// Makes hash functions of the system; nil where it has none, or refuses.
enum SystemHash {
    #if canImport(CryptoKit)
        static func makeSHA256() -> (any FileHash)? { CryptoKitHash<CryptoKit.SHA256>() }
        static func makeSHA512() -> (any FileHash)? { CryptoKitHash<CryptoKit.SHA512>() }
    #elseif canImport(CLibcurl)
        static func makeSHA256() -> (any FileHash)? { LibcryptoHash(CONVOY_DIGEST_SHA256) }
        static func makeSHA512() -> (any FileHash)? { LibcryptoHash(CONVOY_DIGEST_SHA512) }
    #else
        static func makeSHA256() -> (any FileHash)? { nil }
        static func makeSHA512() -> (any FileHash)? { nil }
    #endif
}

#if canImport(CryptoKit)
    /// A hash function of CryptoKit.
    struct CryptoKitHash<Function: CryptoKit.HashFunction>: FileHash {
        private var function = Function()

        mutating func update(_ bytes: UnsafeRawBufferPointer) { function.update(bufferPointer: bytes) }

        func finish() -> [UInt8] { Array(function.finalize()) }
    }
#elseif canImport(CLibcurl)
    /// A hash function of the libcrypto that is opened at run time.
    final class LibcryptoHash: FileHash {
        private let digest: OpaquePointer

        /// Nil when there is no libcrypto, or it refuses.
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
