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

    /// Nil if the system does not have the function.
    func make() -> (any FileHash)? {
        #if canImport(CryptoKit)
            switch self {
            case .md5: CryptoKitHash<Insecure.MD5>()
            case .sha256: CryptoKitHash<SHA256>()
            case .sha512: CryptoKitHash<SHA512>()
            case .sha512Truncated256: nil
            }
        #elseif canImport(CLibcurl)
            switch self {
            case .md5: LibcryptoHash(CONVOY_DIGEST_MD5)
            case .sha256: LibcryptoHash(CONVOY_DIGEST_SHA256)
            case .sha512: LibcryptoHash(CONVOY_DIGEST_SHA512)
            case .sha512Truncated256: LibcryptoHash(CONVOY_DIGEST_SHA512_256)
            }
        #else
            nil
        #endif
    }

    func digest(of bytes: some ContiguousBytes) throws(HashFailure) -> [UInt8] {
        guard var hash = make() else { throw HashFailure() }
        bytes.withUnsafeBytes { hash.update($0) }
        return try hash.finish()
    }

    var defect: String? {
        make() == nil
            ? "this system has no \(rawValue): Convoy computes it with CryptoKit, or with libcrypto of OpenSSL; install it"
            : nil
    }
}

protocol FileHash {
    mutating func update(_ bytes: UnsafeRawBufferPointer)
    /// Called last, once.
    func finish() throws(HashFailure) -> [UInt8]
}

/// The system's library could not compute a digest: it is missing, memory was exhausted, or an OpenSSL provider failed.
struct HashFailure: Error {}

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
