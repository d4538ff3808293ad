// Body bytes on their way to the client: libcurl's small pieces joined to larger ones.
#if canImport(CLibcurl)
    import Foundation

    /// Collects bytes until they are handed over.
    ///
    /// libcurl calls back with at most 16 KiB; what is done for each piece behind it costs more than the copy here.
    struct BodyPiece: ~Copyable {
        private static let largest = 256 << 10

        private var bytes: UnsafeMutableRawPointer?
        private var count = 0
        private var capacity = 0

        deinit { free(bytes) }

        var isEmpty: Bool { count == 0 }
        var isFull: Bool { count > 0 && count == capacity }

        /// Takes as many of the bytes as there is room for; the result is how many.
        ///
        /// - Parameter expected: the length of the whole body, if it is known.
        mutating func append(_ new: UnsafeRawBufferPointer, expecting expected: Int64?) -> Int {
            if bytes == nil {
                // As large as the body, within limits: a server's word costs no memory.
                let wanted = max(Int(clamping: expected ?? 0), new.count)
                capacity = min(Self.largest, wanted)
                bytes = malloc(capacity)
            }
            guard var bytes, let start = new.baseAddress else { return new.count }
            if capacity < Self.largest, new.count > capacity - count {
                let larger = min(Self.largest, max(capacity * 4, count + new.count))
                guard let moved = realloc(bytes, larger) else { return new.count }
                bytes = moved
                (self.bytes, capacity) = (moved, larger)
            }
            let fitting = min(new.count, capacity - count)
            memcpy(bytes.advanced(by: count), start, fitting)
            count += fitting
            return fitting
        }

        /// The bytes; empty afterwards.
        mutating func take() -> Data {
            defer { (bytes, count, capacity) = (nil, 0, 0) }
            guard let bytes else { return Data() }
            return Data(bytesNoCopy: bytes, count: count, deallocator: .free)
        }
    }
#endif
