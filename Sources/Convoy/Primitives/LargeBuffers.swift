// Reused buffers for large bodies.
#if canImport(CLibcurl)
    import Foundation

    // The allocator returns freed memory of this size to the system. Getting zeroed pages again takes longer than
    // copying the bytes of a body. So some unused buffers are kept.
    enum LargeBuffers {
        static let byteCount = 256 << 10
        /// Addresses, because a pointer is not Sendable.
        private static let kept = Locked<[UInt]>([])

        static func take() -> UnsafeMutableRawPointer {
            let kept = kept.withLock { $0.popLast() }
            return UnsafeMutableRawPointer(bitPattern: kept ?? 0) ?? .allocate(byteCount: byteCount, alignment: 16)
        }

        static func giveBack(_ buffer: UnsafeMutableRawPointer) {
            let address = UInt(bitPattern: buffer)
            let isKept = kept.withLock { kept in
                guard kept.count < 16 else { return false }
                kept.append(address)
                return true
            }
            if !isKept { buffer.deallocate() }
        }

        static func data(_ buffer: UnsafeMutableRawPointer, count: Int) -> Data {
            Data(bytesNoCopy: buffer, count: count, deallocator: .custom { buffer, _ in giveBack(buffer) })
        }
    }
#endif
