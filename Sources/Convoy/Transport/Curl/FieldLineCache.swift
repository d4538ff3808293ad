// Caches field lines, because most responses of a host share most of them.
#if canImport(CLibcurl)
    import Foundation

    /// Caches fields by the bytes of their lines, so that a repeated line is not parsed again.
    ///
    /// The cache stores a line of at most 160 bytes when the line arrives for the second time. Lines with secrets,
    /// lengths, codings or locations are excluded.
    ///
    /// - Thread: the engine's.
    /// - Complexity: O(*n*) for a line of *n* bytes. The cache stores at most 64 lines.
    final class FieldLineCache {
        private struct Slot {
            /// The digest of the last line that was noted here; a second line with this digest is stored.
            var candidate: UInt64 = 0
            /// Which slot of the pair was noted last; used in the first slot of the pair.
            var turn = 0
            var line: [UInt8] = []
            var field: HeaderFields.Field?
        }

        @exclusivity(unchecked) private var slots = [Slot](repeating: Slot(), count: 64)

        static let mostBytes = 160

        /// The field of a line without its line end; nil if the line is not cached.
        func field(of line: UnsafeRawBufferPointer) -> HeaderFields.Field? {
            guard line.count <= Self.mostBytes else { return nil }
            let slot = Int(Self.digest(of: line) % 64)
            if let field = slots[slot].field, Self.equals(slots[slot].line, line) { return field }
            guard let field = slots[slot ^ 1].field, Self.equals(slots[slot ^ 1].line, line) else { return nil }
            return field
        }

        /// Caches the field of a line if the line was seen before.
        ///
        /// A line can be stored in one of two slots. The two are used in turn, so that two lines with the same slots
        /// cannot replace each other forever.
        func note(_ line: UnsafeRawBufferPointer, _ field: HeaderFields.Field) {
            guard line.count <= Self.mostBytes else { return }
            let digest = Self.digest(of: line)
            var slot = Int(digest % 64)
            if slots[slot].candidate != digest { slot ^= 1 }
            guard slots[slot].candidate == digest else {
                let first = slot & ~1
                slots[first].turn ^= 1
                slots[first | slots[first].turn].candidate = digest
                return
            }
            guard !field.isSecret else { return }
            (slots[slot].line, slots[slot].field) = (Array(line), field)
        }

        private static func equals(_ kept: [UInt8], _ line: UnsafeRawBufferPointer) -> Bool {
            kept.withUnsafeBytes { kept in
                guard kept.count == line.count, let left = kept.baseAddress, let right = line.baseAddress else {
                    return false
                }
                return memcmp(left, right, line.count) == 0
            }
        }

        /// A digest of the length and of the first and last eight bytes, for choosing a slot.
        ///
        /// A collision only costs time, so a server gains nothing from it.
        private static func digest(of line: UnsafeRawBufferPointer) -> UInt64 {
            let start = UInt64(line.count)
            guard line.count >= 8 else { return line.reduce(start) { ($0 ^ UInt64($1)) &* factor } }
            let first = line.loadUnaligned(as: UInt64.self)
            let last = line.loadUnaligned(fromByteOffset: line.count - 8, as: UInt64.self)
            let digest = ((start ^ first) &* factor ^ last) &* factor
            return digest ^ digest >> 32
        }

        private static let factor: UInt64 = 0x9E37_79B9_7F4A_7C15
    }
#endif
