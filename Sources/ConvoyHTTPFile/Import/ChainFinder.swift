import Convoy

extension ImportedFile {
    // A value is replaced if it is long and distinctive, and if no request before the response contains it. In a
    // `Cookie` field, each cookie that an earlier response set is replaced.
    mutating func findChains() {
        guard requests.contains(where: { $0.answer != nil }) else { return }
        var finder = ChainFinder()
        for index in requests.indices {
            finder.replace(in: &requests[index].request)
            guard let name = requests[index].request.name?.text, let answer = requests[index].answer else { continue }
            finder.note(requests[index].request.templates)
            finder.add(answer, of: name)
        }
    }
}

struct ChainFinder {
    private var sources: [Substring: String] = [:]
    /// The lengths of the values with these first bytes.
    private var lengths: [Substring: Set<Int>] = [:]
    private var cookies: [String: (value: String, source: String)] = [:]
    /// If an earlier request contains a value, the client did not learn the value from a later response.
    private var known: Set<Substring> = []
    private static let mostValues = 100_000
    private static let leastBytes = 8

    // MARK: Values of responses

    mutating func add(_ answer: ImportedAnswer, of name: String) {
        for field in answer.fields {
            if field.name.lowercased() == "set-cookie" {
                addCookies(field.value, of: name)
            } else if field.name.isFieldName, !Self.common.contains(field.name.lowercased()) {
                add(field.value, "\(name).response.headers.\(field.name)")
            }
        }
        if let json = answer.json { add(json, "\(name).response.body.$") }
    }

    private static let common: Set = [
        "date", "server", "via", "expires", "last-modified", "content-type", "content-length", "content-encoding",
        "cache-control", "connection", "vary", "etag", "content-security-policy", "strict-transport-security",
        "access-control-allow-origin", "access-control-allow-headers", "access-control-expose-headers", "link", "p3p",
    ]

    private mutating func addCookies(_ text: String, of name: String) {
        for line in text.split(separator: "\n") {
            let pair = line.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1)
            guard pair.count == 2, pair[0].trimmed.isFieldName else { continue }
            let cookie = pair[0].trimmed
            cookies[cookie] = (pair[1].trimmed, "\(name).response.cookies.\(cookie)")
        }
    }

    private mutating func add(_ json: JSONValue, _ path: String) {
        guard sources.count < Self.mostValues, path.utf8.count < 200 else { return }
        switch json {
        case .string(let text): add(text, path)
        // A number with few digits may occur in a request by chance.
        case .number(let digits) where digits.utf8.count >= Self.leastBytes: add(digits, path, isNumber: true)
        case .array(let elements):
            for (place, element) in elements.enumerated() { add(element, "\(path)[\(place)]") }
        case .object(let members):
            for member in members { if let step = member.name.jsonStep { add(member.value, path + step) } }
        case .null, .bool, .number: break
        }
    }

    private mutating func add(_ text: String, _ source: String, isNumber: Bool = false) {
        guard isNumber || text.isDistinctive, !known.contains(text[...]) else { return }
        for form in Set([text[...], text.percentEncoded[...]]) where sources[form] == nil {
            sources[form] = source
            lengths[form.start, default: []].insert(form.utf8.count)
        }
    }

    // MARK: Replacing values in requests

    mutating func note(_ templates: [Template]) {
        for text in templates.flatMap(\.parts).compactMap(\.string) {
            for isPart in [{ $0.isPartOfValue }, { $0.isWordByte }] as [(UInt8) -> Bool] {
                known.formUnion(text.utf8.split { !isPart($0) }.map { Substring($0) })
            }
        }
    }

    func replace(in request: inout FileRequest) {
        request.mapTemplates { template, field in
            guard field == "cookie" else { return template.replacing { text, _ in values(in: text) } }
            return template.replacingCookies { name, value in
                cookies[name].flatMap { $0.value == value.trimmed ? Template(placeholder: $0.source) : nil }
            }
        }
    }

    private func values(in text: String) -> [(Substring, Template)] {
        guard !sources.isEmpty else { return [] }
        var (found, index, last) = ([(Substring, Template)](), text.startIndex, UInt8(0))
        while index < text.endIndex {
            let byte = text.utf8[index]
            if byte.isPartOfValue, !last.isWordByte, let (value, source) = value(in: text[index...]) {
                found.append((value, Template(placeholder: source)))
                (index, last) = (value.endIndex, value.utf8.last ?? byte)
            } else {
                text.utf8.formIndex(after: &index)
                last = byte
            }
        }
        return found
    }

    private func value(in text: Substring) -> (value: Substring, source: String)? {
        guard let counts = lengths[text.start] else { return nil }
        for count in counts.sorted(by: >) where count <= text.utf8.count {
            let value = Substring(text.utf8.prefix(count))
            let continues = text.utf8.dropFirst(count).first?.isWordByte == true
            if !continues, let source = sources[value] { return (value, source) }
        }
        return nil
    }
}

extension Substring {
    fileprivate var start: Substring { Substring(utf8.prefix(8)) }
}

extension UInt8 {
    fileprivate var isPartOfValue: Bool { isWordByte || "./+=~%".utf8.contains(self) }
}

extension String {
    fileprivate var isDistinctive: Bool {
        let bytes = Array(utf8)
        guard (8...8_192).contains(bytes.count), !contains("://"),
            bytes.allSatisfy({ $0.isWordByte || "./+=~:@".utf8.contains($0) }), Set(bytes).count >= 5
        else { return false }
        func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
        let digits = bytes.count(where: isDigit)
        let capitals = bytes.dropFirst().count { (0x41...0x5A).contains($0) }
        let letters = bytes.count { (0x41...0x5A).contains($0 & 0xDF) }
        if letters == 0 { return digits == bytes.count && bytes.count >= 9 }
        // A timestamp such as 2024-01-01T00:00:00Z may occur in a request by chance.
        if bytes.prefix(4).allSatisfy(isDigit), bytes[4] == 0x2D, digits >= 8, letters <= 3 { return false }
        if contains("@") || contains("/") && digits == 0 { return false }
        return digits >= 2 && letters >= 1 || bytes.count >= 20 && capitals >= 3
    }

    fileprivate var jsonStep: String? {
        guard let first, utf8.allSatisfy({ (0x20..<0x7F).contains($0) && !"{}'\"\\".utf8.contains($0) }) else {
            return nil
        }
        let isShort = !"0123456789-".contains(first) && utf8.allSatisfy(\.isWordByte)
        return isShort ? ".\(self)" : "['\(self)']"
    }
}
