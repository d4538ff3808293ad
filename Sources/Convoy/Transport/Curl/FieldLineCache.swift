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
            /// The digest of a line that arrived once.
            ///
            /// The cache stores the line if it arrives again.
            var candidate: UInt64 = 0
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
        /// A line can be stored in one of two slots.
        func note(_ line: UnsafeRawBufferPointer, _ field: HeaderFields.Field) {
            guard line.count <= Self.mostBytes else { return }
            let digest = Self.digest(of: line)
            let slot = Int(digest % 64)
            guard slots[slot].candidate == digest || slots[slot ^ 1].candidate == digest else {
                slots[slot ^ Int(digest >> 8 & 1)].candidate = digest
                return
            }
            guard !field.isSecret else { return }
            let free = slots[slot].field == nil ? slot : slot ^ 1
            (slots[free].line, slots[free].field) = (Array(line), field)
        }

        private static func equals(_ kept: [UInt8], _ line: UnsafeRawBufferPointer) -> Bool {
            kept.withUnsafeBytes { kept in
                guard kept.count == line.count, let left = kept.baseAddress, let right = line.baseAddress else {
                    return false
                }
                return memcmp(left, right, line.count) == 0
            }
        }

        /// A digest for choosing a slot.
        ///
        /// A collision only costs time, so a server gains nothing from it.
        private static func digest(of line: UnsafeRawBufferPointer) -> UInt64 {
            var digest = UInt64(line.count)
            var index = 0
            while index + 8 <= line.count {
                digest = (digest ^ line.loadUnaligned(fromByteOffset: index, as: UInt64.self)) &* 0x9E37_79B9_7F4A_7C15
                digest ^= digest >> 29
                index += 8
            }
            while index < line.count {
                digest = (digest ^ UInt64(line[index])) &* 0x9E37_79B9_7F4A_7C15
                index += 1
            }
            return digest ^ digest >> 32
        }
    }
#endif
