// Joins libcurl's small pieces of a body into larger chunks for the client.
#if canImport(CLibcurl)
    import Foundation

    /// Collects bytes until they are delivered to the client.
    ///
    /// libcurl passes at most 16 KiB per callback. A delivery to the client costs more than copying that many bytes.
    struct BodyChunk: ~Copyable {
        private static let largest = LargeBuffers.byteCount

        private var bytes: UnsafeMutableRawPointer?
        private var count = 0
        private var capacity = 0

        deinit { if let bytes { Self.free(bytes, capacity) } }

        var isEmpty: Bool { count == 0 }
        var isFull: Bool { count > 0 && count == capacity }

        /// Appends as many bytes as fit, and returns their number.
        ///
        /// The number is at least one, unless `new` is empty or the chunk is full.
        ///
        /// - Parameters:
        ///   - expected: the length of the complete body, if known.
        ///   - limit: the maximum number of bytes to deliver together.
        mutating func append(_ new: UnsafeRawBufferPointer, expecting expected: Int64?, atMost limit: Int) -> Int {
            let largest = max(1, min(Self.largest, limit))
            if new.count > capacity - count, capacity < largest {
                // The first buffer has the announced length of the body. The limit applies, because a server can
                // announce any length.
                let wanted = bytes == nil ? Int(clamping: expected ?? 0) : capacity * 4
                let larger = min(largest, max(wanted, count + new.count))
                let moved: UnsafeMutableRawPointer =
                    larger == Self.largest ? LargeBuffers.take() : .allocate(byteCount: larger, alignment: 16)
                if let bytes {
                    memcpy(moved, bytes, count)
                    Self.free(bytes, capacity)
                }
                (bytes, capacity) = (moved, larger)
            }
            let fitting = min(new.count, capacity - count)
            if let bytes, let start = new.baseAddress { memcpy(bytes.advanced(by: count), start, fitting) }
            count += fitting
            return fitting
        }

        private static func free(_ bytes: UnsafeMutableRawPointer, _ capacity: Int) {
            if capacity == largest { LargeBuffers.giveBack(bytes) } else { bytes.deallocate() }
        }

        /// Returns the bytes and empties the chunk.
        mutating func take() -> Data {
            defer { (bytes, count, capacity) = (nil, 0, 0) }
            guard let bytes else { return Data() }
            // The bytes are copied, so that a slow reader does not retain a mostly empty buffer.
            if count * 2 < capacity {
                defer { Self.free(bytes, capacity) }
                return Data(bytes: bytes, count: count)
            }
            if capacity == Self.largest { return LargeBuffers.data(bytes, count: count) }
            return Data(bytesNoCopy: bytes, count: count, deallocator: .custom { bytes, _ in bytes.deallocate() })
        }
    }
#endif
