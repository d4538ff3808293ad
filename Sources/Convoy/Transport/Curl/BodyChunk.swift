// Body bytes on their way to the client: libcurl's small chunks joined to larger ones.
#if canImport(CLibcurl)
    import Foundation

    /// Collects bytes until they are handed over.
    ///
    /// libcurl calls back with at most 16 KiB; what is done for each chunk behind it costs more than the copy here.
    struct BodyChunk: ~Copyable {
        private static let largest = LargeBuffers.byteCount

        private var bytes: UnsafeMutableRawPointer?
        private var count = 0
        private var capacity = 0

        deinit { if let bytes { Self.free(bytes, capacity) } }

        var isEmpty: Bool { count == 0 }
        var isFull: Bool { count > 0 && count == capacity }

        /// Takes as many of the bytes as there is room for; the result is how many, at least one of some.
        ///
        /// - Parameters:
        ///   - expected: the length of the whole body, if it is known.
        ///   - limit: how much is handed over together, at most.
        mutating func append(_ new: UnsafeRawBufferPointer, expecting expected: Int64?, atMost limit: Int) -> Int {
            let largest = max(1, min(Self.largest, limit))
            if bytes == nil {
                // As large as the body, within limits: a server's word costs no memory.
                grow(to: min(largest, max(Int(clamping: expected ?? 0), new.count)))
            } else if new.count > capacity - count, capacity < largest {
                grow(to: min(largest, max(capacity * 4, count + new.count)))
            }
            let fitting = min(new.count, capacity - count)
            if let bytes, let start = new.baseAddress { memcpy(bytes.advanced(by: count), start, fitting) }
            count += fitting
            return fitting
        }

        private mutating func grow(to wanted: Int) {
            let larger = min(Self.largest, max(1, wanted))
            let moved: UnsafeMutableRawPointer =
                larger == Self.largest ? LargeBuffers.take() : .allocate(byteCount: larger, alignment: 16)
            if let bytes {
                memcpy(moved, bytes, count)
                Self.free(bytes, capacity)
            }
            (bytes, capacity) = (moved, larger)
        }

        private static func free(_ bytes: UnsafeMutableRawPointer, _ capacity: Int) {
            if capacity == largest { LargeBuffers.giveBack(bytes) } else { bytes.deallocate() }
        }

        /// The bytes; empty afterwards.
        mutating func take() -> Data {
            defer { (bytes, count, capacity) = (nil, 0, 0) }
            guard let bytes else { return Data() }
            // A buffer that is mostly empty is not kept by a reader that is behind.
            if count * 2 < capacity {
                defer { Self.free(bytes, capacity) }
                return Data(bytes: bytes, count: count)
            }
            if capacity == Self.largest { return LargeBuffers.data(bytes, count: count) }
            return Data(bytesNoCopy: bytes, count: count, deallocator: .custom { bytes, _ in bytes.deallocate() })
        }
    }
#endif
