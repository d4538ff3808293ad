// Buffers for large bodies, used again.
#if canImport(CLibcurl)
    import Foundation

    /// Buffers of one size that body bytes pass through.
    ///
    /// Memory of that size is given back to the system when it is freed; getting it again, zeroed, page by page, costs more
    /// than the copy into it.
    enum LargeBuffers {
        static let byteCount = 256 << 10
        /// As many are kept for later: 4 MiB.
        private static let limit = 16
        private static let kept = Locked<[Buffer]>([])

        /// A buffer out of use: it belongs to the caller that takes it.
        private struct Buffer: @unchecked Sendable {
            // @unchecked: a pointer is not. One that is here is in no other hands.
            let address: UnsafeMutableRawPointer
        }

        static func take() -> UnsafeMutableRawPointer {
            kept.withLock { $0.popLast() }?.address ?? .allocate(byteCount: byteCount, alignment: 16)
        }

        static func giveBack(_ buffer: UnsafeMutableRawPointer) {
            let unused = Buffer(address: buffer)
            let isKept = kept.withLock { kept in
                guard kept.count < limit else { return false }
                kept.append(unused)
                return true
            }
            if !isKept { buffer.deallocate() }
        }

        /// The first bytes of a buffer as data, which gives it back.
        static func data(_ buffer: UnsafeMutableRawPointer, count: Int) -> Data {
            Data(bytesNoCopy: buffer, count: count, deallocator: .custom { buffer, _ in giveBack(buffer) })
        }
    }
#endif
