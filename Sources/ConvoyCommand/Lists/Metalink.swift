// Metalink 4: RFC 5854.
import Convoy
import Foundation

enum Metalink {
    private struct File {
        var name = ""
        var urls: [(text: String, priority: Int)] = []
        var digests: [String: String] = [:]
        var ambiguousType: String?
        var size: String?

        var outcome: ListParser.Outcome {
            let shown = "the file \(name.prefix(80).debugDescription)"
            let sorted = urls.enumerated().sorted {
                ($0.element.priority, $0.offset) < ($1.element.priority, $1.offset)
            }
            guard case .request(var entry) = InputLine(urls: sorted.map(\.element.text)) else {
                return .broken(line: nil, reason: "\(shown) has no http or https URL")
            }
            if let ambiguousType {
                let type = ambiguousType.prefix(80).debugDescription
                return .broken(line: nil, reason: "\(shown) has two different digests of the type \(type)")
            }
            let digest = digests["sha-256"].map(FileDigest.sha256) ?? digests["sha-512"].map(FileDigest.sha512)
            guard digest != nil || digests.isEmpty else {
                let types = digests.keys.sorted().joined(separator: " and ").prefix(80).debugDescription
                return .broken(
                    line: nil, reason: "\(shown) has only digests of the type \(types), not SHA-256 or SHA-512")
            }
            if let defect = digest?.defect { return .broken(line: nil, reason: "\(shown): \(defect)") }
            let byteCount = size.flatMap { $0.first == "+" ? nil : Int64($0) }
            guard size == nil || byteCount ?? -1 >= 0 else {
                return .broken(line: nil, reason: "\(shown) has an invalid size")
            }
            (entry.name, entry.digest, entry.byteCount) = (name.isEmpty ? nil : name, digest, byteCount)
            return .entry(entry)
        }
    }

    static func entries(in document: [UInt8]) -> [ListParser.Outcome] {
        do { return try files(in: document).map(\.outcome) } catch {
            let isVersion3 = (error as? XMLScanner.Defect)?.isVersion3 == true
            let reason =
                isVersion3
                ? "it is a Metalink of version 3, but only version 4 (RFC 5854) is supported"
                : "it is XML, but not a valid Metalink 4 document (RFC 5854)"
            return [.broken(line: nil, reason: reason)]
        }
    }

    private static func files(in document: [UInt8]) throws -> [File] {
        var scanner = XMLScanner(bytes: document)
        var (files, open, content) = ([File](), [(name: String, attributes: [String: String])](), "")
        var isMetalink = false
        func close(_ name: String) throws {
            guard let element = open.popLast(), element.name == name else { throw XMLScanner.Defect() }
            let text = content.trimmingCharacters(in: .whitespacesAndNewlines)
            content = ""
            guard let file = files.indices.last else { return }
            // Digests of pieces are not read. All others are those of the file, as in the `verification` of version 3.
            if name == "hash", open.last?.name != "pieces", open.contains(where: { $0.name == "file" }) {
                let type = element.attributes["type"]?.lowercased() ?? ""
                let before = files[file].digests.updateValue(text, forKey: type)
                if let before, before.lowercased() != text.lowercased() { files[file].ambiguousType = type }
            }
            guard open.last?.name == "file" else { return }
            if name == "url" {
                files[file].urls.append((text, element.attributes["priority"].flatMap { Int($0) } ?? 999_999))
            } else if name == "size" {
                files[file].size = text
            }
        }
        while let piece = try scanner.next() {
            switch piece {
            case .text(let text): content += text
            case .start(let name, let attributes, let isEmpty):
                if open.isEmpty { isMetalink = name == "metalink" }
                // Only version 3 has `files`, which contains the files.
                if isMetalink, open.count == 1, name == "files" { throw XMLScanner.Defect(isVersion3: true) }
                open.append((name, attributes))
                content = ""
                if name == "file" { files.append(File(name: attributes["name"] ?? "")) }
                if isEmpty { try close(name) }
            case .end(let name): try close(name)
            }
        }
        guard open.isEmpty, isMetalink else { throw XMLScanner.Defect() }
        return files
    }
}

private struct XMLScanner {
    struct Defect: Error { var isVersion3 = false }

    enum Piece {
        case start(String, [String: String], isEmpty: Bool)
        case end(String)
        case text(String)
    }

    let bytes: [UInt8]
    private var index = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func next() throws -> Piece? {
        while isNext("<!--") || isNext("<?") { _ = try take(to: isNext("<?") ? "?>" : "-->") }
        guard index < bytes.count else { return nil }
        if isNext("<![CDATA[") {
            return .text(String(decoding: try take(to: "]]>").dropFirst("<![CDATA[".utf8.count), as: UTF8.self))
        }
        // Document type declarations are rejected, because their entities could expand to text of any size.
        if isNext("<!") { throw Defect() }
        if bytes[index] == UInt8(ascii: "<") { return try tag() }
        let text = bytes[index...].prefix { $0 != UInt8(ascii: "<") }
        index = text.endIndex
        return .text(Self.decoded(text))
    }

    private func isNext(_ mark: StaticString) -> Bool {
        mark.withUTF8Buffer { bytes[index...].starts(with: $0) }
    }

    private mutating func take(to mark: StaticString) throws -> ArraySlice<UInt8> {
        let start = index
        while index < bytes.count {
            if isNext(mark) {
                defer { index += mark.utf8CodeUnitCount }
                return bytes[start..<index]
            }
            index += 1
        }
        throw Defect()
    }

    private mutating func tag() throws -> Piece {
        var quote: UInt8?
        let tag = bytes[(index + 1)...].prefix { byte in
            if let open = quote {
                if byte == open { quote = nil }
                return true
            }
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") { quote = byte }
            return byte != UInt8(ascii: ">")
        }
        guard tag.endIndex < bytes.count else { throw Defect() }
        index = tag.endIndex + 1
        if tag.first == UInt8(ascii: "/") {
            return .end(Self.localName(tag.dropFirst().prefix { !$0.isBlank }))
        }
        let isEmpty = tag.last == UInt8(ascii: "/")
        let inside = isEmpty ? tag.dropLast() : tag
        let name = Self.localName(inside.prefix { !$0.isBlank })
        guard !name.isEmpty else { throw Defect() }
        return .start(name, Self.attributes(inside.drop { !$0.isBlank }), isEmpty: isEmpty)
    }

    private static func attributes(_ bytes: ArraySlice<UInt8>) -> [String: String] {
        var (attributes, rest): ([String: String], ArraySlice<UInt8>) = ([:], bytes)
        while !rest.isEmpty {
            rest = rest.drop { $0.isBlank }
            let name = rest.prefix { !$0.isBlank && $0 != UInt8(ascii: "=") }
            rest = rest[name.endIndex...].drop { $0.isBlank }
            guard rest.first == UInt8(ascii: "=") else { continue }
            rest = rest.dropFirst().drop { $0.isBlank }
            guard let quote = rest.first, quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { continue }
            let value = rest.dropFirst().prefix { $0 != quote }
            rest = rest[value.endIndex...].dropFirst()
            attributes[localName(name)] = decoded(value)
        }
        return attributes
    }

    private static func localName(_ name: ArraySlice<UInt8>) -> String {
        let start = name.lastIndex(of: UInt8(ascii: ":")).map { $0 + 1 } ?? name.startIndex
        return String(decoding: name[start...], as: UTF8.self).lowercased()
    }

    // The replacements are not searched for references.
    private static func decoded(_ bytes: ArraySlice<UInt8>) -> String {
        var (decoded, rest): ([UInt8], ArraySlice<UInt8>) = ([], bytes)
        while let start = rest.firstIndex(of: UInt8(ascii: "&")) {
            decoded += rest[..<start]
            rest = rest[(start + 1)...]
            if let end = rest.prefix(longestReference).firstIndex(of: UInt8(ascii: ";")),
                let scalar = scalar(named: String(decoding: rest[..<end], as: UTF8.self))
            {
                decoded += String(scalar).utf8
                rest = rest[(end + 1)...]
            } else {
                decoded.append(UInt8(ascii: "&"))
            }
        }
        return String(decoding: decoded + rest, as: UTF8.self)
    }

    private static let longestReference = 11

    private static func scalar(named name: String) -> Unicode.Scalar? {
        if let scalar = ["lt": "<", "gt": ">", "quot": "\"", "apos": "'", "amp": "&"][name] as Unicode.Scalar? {
            return scalar
        }
        guard name.hasPrefix("#") else { return nil }
        let isHexadecimal = name.hasPrefix("#x")
        let digits = name.dropFirst(isHexadecimal ? 2 : 1)
        guard digits.first != "+" else { return nil }
        let code = UInt32(digits, radix: isHexadecimal ? 16 : 10)
        return code.flatMap(Unicode.Scalar.init)
    }
}

extension UInt8 {
    fileprivate var isBlank: Bool { self == 0x20 || self == 0x09 || self == 0x0A || self == 0x0D }
}
