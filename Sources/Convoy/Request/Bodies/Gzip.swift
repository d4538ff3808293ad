// Compressing a body before it is sent: gzip (RFC 1952) over the system's zlib.
import Foundation

#if canImport(CLibcurl)
    import CLibcurl
#endif

extension Request {
    /// Compresses the body with gzip and sets `Content-Encoding`, for servers that are known to accept it.
    ///
    /// The compression runs on the calling thread, except for JSON that is encoded later (``json(_:)``). Call this
    /// method after the function that sets the body: a later body is sent uncompressed, with a wrong
    /// `Content-Encoding`. Without a body, or with one that is not in memory (a file, a stream, a sequence, a form),
    /// the request is invalid.
    ///
    /// - Complexity: O(*n*) for *n* bytes of body.
    public func gzipped() -> Self {
        changed { core in
            guard core.defect == nil else { return }
            do throws(EncodingError) {
                switch core.body {
                case .data(let body): core.body = .data(try Gzip.compress(body))
                case .json(let encode): core.body = .json { try Gzip.compress(encode($0)) }
                case .file, .stream, .multipart:
                    throw .refusal("only a body in memory can be compressed with gzipped()", at: [])
                case nil:
                    let reason = "the request has no body to compress: call gzipped() after the function that sets it"
                    throw .refusal(reason, at: [])
                }
                let earlier = core.headerFields["Content-Encoding"].map { $0 + ", " } ?? ""
                core.headerFields["Content-Encoding"] = earlier + "gzip"
            } catch {
                core.defect = error.reason
            }
        }
    }
}

/// Writes one gzip member.
enum Gzip {
    #if canImport(CLibcurl)
        static func compress(_ data: Data) throws(EncodingError) -> Data {
            var output: UnsafeMutablePointer<UInt8>?
            let count = data.withUnsafeBytes { bytes in
                convoy_gzip(bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count, &output)
            }
            guard count > 0, let output else {
                let isLoaded = convoy_decoder_is_available(CONVOY_CODING_GZIP) != 0
                let reason = isLoaded ? "memory allocation failed" : "libz could not be loaded"
                throw .refusal("the body could not be compressed: \(reason)", at: [])
            }
            return Data(bytesNoCopy: output, count: count, deallocator: .free)
        }
    #else
        /// This function was never tested, because no Apple platform was available.
        static func compress(_ data: Data) throws(EncodingError) -> Data {
            // The system rejects empty data. These bytes are a last deflate block without content.
            var deflated = Data([0x03, 0x00])
            if !data.isEmpty {
                // Despite its name, `.zlib` is raw deflate.
                do { deflated = try (data as NSData).compressed(using: .zlib) as Data } catch {
                    throw .refusal("the body could not be compressed: \(error.localizedDescription)", at: [])
                }
            }
            var member = Data([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3])
            member.append(deflated)
            for word in [checksum(of: data), UInt32(truncatingIfNeeded: data.count)] {
                withUnsafeBytes(of: word.littleEndian) { member.append(contentsOf: $0) }
            }
            return member
        }

        /// CRC-32 as in RFC 1952, section 8.
        private static func checksum(of data: Data) -> UInt32 {
            let table = (0..<256).map { index in
                (0..<8).reduce(UInt32(index)) { value, _ in value >> 1 ^ (value & 1 == 1 ? 0xEDB8_8320 : 0) }
            }
            return ~data.reduce(UInt32.max) { table[Int(UInt8(truncatingIfNeeded: $0) ^ $1)] ^ $0 >> 8 }
        }
    #endif
}
