// Property lists that would run a decoder out of stack.
import Foundation

extension ResponseDecoding {
    static func propertyList<Output: Decodable>(
        _ type: Output.Type, _ body: Data, _ decoder: PropertyListDecoder
    ) throws -> Output {
        guard !body.isEmpty else { throw DecodingError.emptyBody }
        // Foundation parses XML by recursion without a limit, and follows a binary list's references as far as types go.
        guard PropertyListDepth.isBearable(body) else {
            throw DecodingError.corrupted("it is nested deeper than \(PropertyListDepth.maximum), or in itself", nil)
        }
        return try decoder.decode(type, from: body)
    }
}

/// Measures how deep a property list is nested, without recursion.
enum PropertyListDepth {
    /// 600 levels of XML are too much for a stack of 512 KiB, which Apple's threads have.
    static let maximum = 200
    /// What a binary list may come to, references to the same object counted each time.
    static let maximumObjects = 10_000_000

    static func isBearable(_ body: Data) -> Bool {
        body.withUnsafeBytes { bytes in
            bytes.starts(with: "bplist0".utf8)
                ? BinaryList(bytes).map { $0.isBearable() } ?? true : isBearable(xml: bytes)
        }
    }

    /// Counts the tags of arrays and dictionaries; zeros are those of UTF-16 and UTF-32.
    private static func isBearable(xml bytes: UnsafeRawBufferPointer) -> Bool {
        var text = XMLText(bytes)
        var depth = 0
        while text.skip(to: "<") {
            if text.skip("!--") {
                guard text.skip(to: "-->") else { return true }
            } else if text.skip("![CDATA[") {
                guard text.skip(to: "]]>") else { return true }
            } else if text.skip("?") {
                guard text.skip(to: "?>") else { return true }
            } else if text.skip("!") {
                // No property list declares anything within itself, and what that hides would not be counted.
                guard text.skip(to: ">", unless: "[") else { return false }
            } else if text.skip("/array") || text.skip("/dict") {
                depth = max(0, depth - 1)
            } else if text.skip("array") || text.skip("dict") {
                text.skipBlanks()
                guard !text.skip("/>") else { continue }
                depth += 1
                if depth > maximum { return false }
            }
        }
        return true
    }
}

/// Reads a text byte by byte, past zeros.
private struct XMLText {
    private let bytes: UnsafeRawBufferPointer
    private var index = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    private mutating func next() -> UInt8? {
        while index < bytes.count {
            defer { index += 1 }
            if bytes[index] != 0 { return bytes[index] }
        }
        return nil
    }

    /// Moves past a word if it comes next.
    mutating func skip(_ word: StaticString) -> Bool {
        let start = index
        for offset in 0..<word.utf8CodeUnitCount where next() != word.utf8Start[offset] {
            index = start
            return false
        }
        return true
    }

    /// Moves past the next occurrence of a word; false, and to the end or past the other, when there is none before.
    mutating func skip(to word: StaticString, unless other: StaticString? = nil) -> Bool {
        while index < bytes.count {
            if skip(word) { return true }
            if let other, skip(other) { return false }
            _ = next()
        }
        return false
    }

    mutating func skipBlanks() {
        while index < bytes.count, [0, 0x20, 0x09, 0x0A, 0x0D].contains(bytes[index]) { index += 1 }
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

    /// Nil for what is no binary list: the decoder says so.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= 40 else { return nil }
        self.bytes = bytes
        let trailer = bytes.count - 32
        (offsetSize, referenceSize) = (Int(bytes[trailer + 6]), Int(bytes[trailer + 7]))
        guard (1...8).contains(offsetSize), (1...8).contains(referenceSize) else { return nil }
        let numbers = [8, 16, 24].map { Self.number(bytes, at: trailer + $0, size: 8) }
        guard let count = numbers[0], let top = numbers[1], let table = numbers[2], top < count, count <= bytes.count
        else { return nil }
        (self.count, self.top, self.table) = (count, top, table)
    }

    private static func number(_ bytes: UnsafeRawBufferPointer, at index: Int, size: Int) -> Int? {
        guard index >= 0, index <= bytes.count - size else { return nil }
        var number: UInt64 = 0
        for byte in bytes[index..<index + size] {
            guard number >> 56 == 0 else { return nil }
            number = number << 8 | UInt64(byte)
        }
        return number < 1 << 62 ? Int(number) : nil
    }

    /// Where the references of an array, set or dictionary are; empty for other objects, or what cannot be read.
    private func references(of object: Int) -> Range<Int> {
        guard let offset = Self.number(bytes, at: table + object * offsetSize, size: offsetSize), offset < bytes.count
        else { return 0..<0 }
        let kind = bytes[offset] >> 4
        guard (0xA...0xD).contains(kind) else { return 0..<0 }
        var length = Int(bytes[offset] & 0xF)
        var start = offset + 1
        if length == 0xF {
            guard start < bytes.count, bytes[start] >> 4 == 1, bytes[start] & 0xF <= 3 else { return 0..<0 }
            let size = 1 << Int(bytes[start] & 0xF)
            guard let long = Self.number(bytes, at: start + 1, size: size) else { return 0..<0 }
            (length, start) = (long, start + 1 + size)
        }
        let width = kind == 0xD ? 2 * referenceSize : referenceSize
        guard length <= (bytes.count - start) / width else { return 0..<0 }
        return start..<start + length * width
    }

    /// An object that is being looked into.
    private struct Open {
        let object: Int
        /// The references that are left.
        var rest: Range<Int>
        /// How many objects it comes to so far, and how deep.
        var size = 1
        var depth = 0
    }

    /// Whether no object is in itself, none is too deep, and there are not too many.
    func isBearable() -> Bool {
        var known: [Int: (size: Int, depth: Int)] = [:]
        var isOpen: Set<Int> = [top]
        var path = [Open(object: top, rest: references(of: top))]
        var steps = 0
        while let last = path.indices.last {
            let open = path[last]
            if open.rest.isEmpty {
                path.removeLast()
                isOpen.remove(open.object)
                known[open.object] = (open.size, open.depth)
                // Its parent reads the reference again, and finds it known.
                continue
            }
            steps += 1
            guard let child = Self.number(bytes, at: open.rest.lowerBound, size: referenceSize), child < count else {
                return true
            }
            if let (size, depth) = known[child] {
                path[last].rest = open.rest.lowerBound + referenceSize..<open.rest.upperBound
                path[last].size += size
                path[last].depth = max(open.depth, depth + 1)
            } else {
                guard isOpen.insert(child).inserted else { return false }
                path.append(Open(object: child, rest: references(of: child)))
            }
            guard path.count + path[last].depth <= PropertyListDepth.maximum + 1,
                path[last].size <= PropertyListDepth.maximumObjects, steps <= 2 * PropertyListDepth.maximumObjects
            else { return false }
        }
        return true
    }
}
