// A check for property lists that would overflow a decoder's stack.
import Foundation

extension ResponseDecoding {
    static func propertyList<Output: Decodable>(
        _ type: Output.Type, _ body: Data, _ decoder: PropertyListDecoder
    ) throws -> Output {
        guard !body.isEmpty else { throw DecodingError.emptyBody }
        // Foundation parses XML recursively without a limit. In a binary list, Foundation follows references as deep as
        // the decoded type nests, so a recursive type has no limit either.
        guard PropertyListDepth.isBearable(body) else {
            throw DecodingError.corrupted(
                "it is nested deeper than \(PropertyListDepth.maximum) levels, or contains itself", nil)
        }
        return try decoder.decode(type, from: body)
    }
}

/// Measures how deep a property list is nested, without recursion.
enum PropertyListDepth {
    /// The maximum depth.
    ///
    /// 600 levels of XML overflow a stack of 512 KiB, which Apple's threads have.
    static let maximum = 200
    /// The maximum number of objects of a binary list.
    ///
    /// An object counts once for each reference to it.
    static let maxObjects = 10_000_000

    static func isBearable(_ body: Data) -> Bool {
        if body.starts(with: "bplist0".utf8) {
            return body.withUnsafeBytes { bytes in BinaryList(bytes).map { $0.isBearable() } ?? true }
        }
        let marks: [([UInt8], String.Encoding)] = [
            ([0, 0, 0xFE, 0xFF], .utf32BigEndian), ([0xFE, 0xFF], .utf16BigEndian), ([0xFF, 0xFE], .utf16LittleEndian),
        ]
        guard let (mark, encoding) = marks.first(where: { body.starts(with: $0.0) }) else {
            return body.withUnsafeBytes { isBearable(xml: $0) }
        }
        // The decoder rejects text that cannot be converted.
        guard var text = String(data: body.dropFirst(mark.count), encoding: encoding) else { return true }
        return text.withUTF8 { isBearable(xml: UnsafeRawBufferPointer($0)) }
    }

    /// Whether the tags of arrays and dictionaries are nested at most ``maximum`` levels deep.
    ///
    /// The tags are read as Foundation reads them. The result is false for text that Foundation may read differently
    /// from XML, because the count could be wrong.
    private static func isBearable(xml bytes: UnsafeRawBufferPointer) -> Bool {
        // XML in UTF-8 contains no zero byte. UTF-16 and UTF-32 without a byte order mark do, and are rejected.
        guard !bytes.contains(0) else { return false }
        var text = XMLText(bytes)
        var depth = 0
        var hasRoot = false
        while text.skip(to: "<") {
            if text.skip("!--") {
                guard text.skip(to: "-->") else { return true }
            } else if text.skip("![CDATA[") {
                guard text.skip(to: "]]>") else { return true }
            } else if text.skip("?") {
                // Within an element Foundation reads `<?>` as a complete instruction. Before any element, Foundation
                // reads it as the start of an instruction. A text with `<?>` is therefore rejected.
                guard !text.skip(">") else { return false }
                guard text.skip(to: "?>") else { return true }
            } else if text.skip("!") {
                // Declarations within `<!DOCTYPE … [` could hide tags from the count. A property list has none.
                guard text.skip(to: ">", unless: "[") else { return false }
            } else {
                let isEnd = text.skip("/")
                let isRoot = text.skip("plist")
                let nests = !isRoot && (text.skip("array") || text.skip("dict"))
                // Foundation only looks for the end of a tag, and an XML tag contains no `<`.
                guard text.skip(to: ">", unless: "<") else { return false }
                if isRoot, !isEnd {
                    // Foundation parses a `<plist>` in a `<plist>` recursively. `depth` does not count `<plist>` tags.
                    guard !hasRoot else { return false }
                    hasRoot = true
                } else if nests, isEnd {
                    depth = max(0, depth - 1)
                } else if nests, !text.isBehind("/>") {
                    depth += 1
                    if depth > maximum { return false }
                }
            }
        }
        return true
    }
}

/// Reads a text byte by byte.
private struct XMLText {
    private let bytes: UnsafeRawBufferPointer
    private var index = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Moves past a word and returns true, if the word is at the position.
    mutating func skip(_ word: StaticString) -> Bool {
        guard isAt(index, word) else { return false }
        index += word.utf8CodeUnitCount
        return true
    }

    /// Whether a word is directly before the position.
    func isBehind(_ word: StaticString) -> Bool { isAt(index - word.utf8CodeUnitCount, word) }

    private func isAt(_ start: Int, _ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard start >= 0, bytes.count - start >= count else { return false }
        for offset in 0..<count where bytes[start + offset] != word.utf8Start[offset] { return false }
        return true
    }

    /// Moves past the next occurrence of a word.
    ///
    /// Returns false if the text has `other` before the word, or does not have the word.
    mutating func skip(to word: StaticString, unless other: StaticString? = nil) -> Bool {
        while index < bytes.count {
            if skip(word) { return true }
            if let other, skip(other) { return false }
            index += 1
        }
        return false
    }
}

/// The references among the objects of a binary property list.
private struct BinaryList {
    private let bytes: UnsafeRawBufferPointer
    private let offsetSize: Int
    private let referenceSize: Int
    private let count: Int
    private let top: Int
    private let table: Int

    /// Nil when the data is not a binary list; the decoder then reports the defect.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= 40 else { return nil }
        self.bytes = bytes
        let trailer = bytes.count - 32
        (offsetSize, referenceSize) = (Int(bytes[trailer + 6]), Int(bytes[trailer + 7]))
        guard offsetSize > 0, referenceSize > 0 else { return nil }
        let numbers = [8, 16, 24].map { Self.number(bytes, at: trailer + $0, size: 8) }
        guard let count = numbers[0], let top = numbers[1], let table = numbers[2], top < count,
            count <= bytes.count / offsetSize
        else { return nil }
        (self.count, self.top, self.table) = (count, top, table)
    }

    /// Reads an integer; if it is longer than eight bytes, only the last eight are used, as Foundation does.
    private static func number(_ bytes: UnsafeRawBufferPointer, at index: Int, size: Int) -> Int? {
        guard index >= 0, index <= bytes.count - size else { return nil }
        let number = bytes[index..<index + size].suffix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return number < 1 << 62 ? Int(number) : nil
    }

    /// The positions of the bytes that contain the references of an array, set or dictionary.
    ///
    /// The range is empty for other objects and for unreadable objects.
    private func references(of object: Int) -> Range<Int> {
        guard let offset = Self.number(bytes, at: table + object * offsetSize, size: offsetSize), offset < bytes.count
        else { return 0..<0 }
        let kind = bytes[offset] >> 4
        guard (0xA...0xD).contains(kind) else { return 0..<0 }
        var length = Int(bytes[offset] & 0xF)
        var start = offset + 1
        if length == 0xF {
            guard start < bytes.count, bytes[start] >> 4 == 1 else { return 0..<0 }
            let size = 1 << Int(bytes[start] & 0xF)
            guard let long = Self.number(bytes, at: start + 1, size: size) else { return 0..<0 }
            (length, start) = (long, start + 1 + size)
        }
        let width = kind == 0xD ? 2 * referenceSize : referenceSize
        guard length <= (bytes.count - start) / width else { return 0..<0 }
        return start..<start + length * width
    }

    /// An object whose references are being followed.
    private struct Open {
        let object: Int
        /// The positions of the references that have not been followed yet.
        var rest: Range<Int>
        /// The number of objects and the depth so far: the object itself and its followed references.
        var size = 1
        var depth = 0
    }

    /// The size and the depth of an object, in four bytes, because a list may have almost as many objects as bytes.
    private struct Known {
        static let open = Known(size: 0, depth: 1)
        private let bits: UInt32

        init() { bits = 0 }
        /// - Parameters: the size, at most ``PropertyListDepth/maxObjects`` (24 bits), and the depth, at most
        ///   ``PropertyListDepth/maximum`` (8 bits).
        init(size: Int, depth: Int) { bits = UInt32(size) << 8 | UInt32(depth) }

        var isNothing: Bool { bits == 0 }
        var isOpen: Bool { bits == 1 }
        var size: Int { Int(bits >> 8) }
        var depth: Int { Int(bits & 0xFF) }
    }

    /// Whether no object contains itself, none is nested too deeply, and the number of objects is not too large.
    func isBearable() -> Bool {
        var known = [Known](repeating: Known(), count: count)
        known[top] = .open
        var path = [Open(object: top, rest: references(of: top))]
        var steps = 0
        while let last = path.indices.last {
            let open = path[last]
            if open.rest.isEmpty {
                path.removeLast()
                known[open.object] = Known(size: open.size, depth: open.depth)
                // The next step reads the reference in the parent again, and then finds the result in `known`.
                continue
            }
            steps += 1
            let child = Self.number(bytes, at: open.rest.lowerBound, size: referenceSize)
            if let child, child < count, known[child].isNothing {
                known[child] = .open
                path.append(Open(object: child, rest: references(of: child)))
            } else {
                path[last].rest = open.rest.lowerBound + referenceSize..<open.rest.upperBound
                // An invalid reference is ignored. The decoder rejects such a reference when it follows the reference.
                if let child, child < count {
                    guard !known[child].isOpen else { return false }
                    path[last].size += known[child].size
                    path[last].depth = max(open.depth, known[child].depth + 1)
                }
            }
            guard path.count + path[last].depth <= PropertyListDepth.maximum + 1,
                path[last].size <= PropertyListDepth.maxObjects, steps <= 2 * PropertyListDepth.maxObjects
            else { return false }
        }
        return true
    }
}
