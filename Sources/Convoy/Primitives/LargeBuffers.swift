// Reused buffers for large bodies.
#if canImport(CLibcurl)
    import Foundation

    // The allocator returns freed memory of this size to the system. Getting zeroed pages again takes longer than
    // copying the bytes of a body. So some unused buffers are kept.
    enum LargeBuffers {
        static let byteCount = 256 << 10
        private static let limit = 16
        private static let kept = Locked<[Buffer]>([])

        private struct Buffer: @unchecked Sendable {
            // @unchecked: a pointer is not Sendable, but no other code uses a stored buffer.
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

        static func data(_ buffer: UnsafeMutableRawPointer, count: Int) -> Data {
            Data(bytesNoCopy: buffer, count: count, deallocator: .custom { buffer, _ in giveBack(buffer) })
        }
    }
#endif
