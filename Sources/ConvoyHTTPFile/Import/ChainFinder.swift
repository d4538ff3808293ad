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
    private var sources: [[UInt8]: String] = [:]
    private var lengths: [UInt64: Set<Int>] = [:]
    private var cookies: [String: (value: String, source: String)] = [:]
    /// If an earlier request contains a value, the client did not learn the value from a later response.
    private var known: Set<[UInt8]> = []
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
        if let json = answer.json { add(json, "\(name).response.body.$", depth: 0) }
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

    private mutating func add(_ json: JSONValue, _ path: String, depth: Int) {
        guard sources.count < Self.mostValues, path.utf8.count < 200 else { return }
        switch json {
        case .string(let text): add(text, path)
        // A number with few digits may occur in a request by chance.
        case .number(let digits) where digits.utf8.count >= Self.leastBytes: add(digits, path, isNumber: true)
        case .array(let elements):
            for (place, element) in elements.enumerated() { add(element, "\(path)[\(place)]", depth: depth + 1) }
        case .object(let members):
            for member in members {
                guard let step = member.name.jsonStep else { continue }
                add(member.value, path + step, depth: depth + 1)
            }
        case .null, .bool, .number: break
        }
    }

    private mutating func add(_ text: String, _ source: String, isNumber: Bool = false) {
        guard isNumber || text.isDistinctive, !known.contains(Array(text.utf8)) else { return }
        for form in Set([text, text.percentEncoded]) {
            let bytes = Array(form.utf8)
            guard let key = Self.key(bytes[...]), sources[bytes] == nil else { continue }
            sources[bytes] = source
            lengths[key, default: []].insert(bytes.count)
        }
    }

    private static func key(_ bytes: ArraySlice<UInt8>) -> UInt64? {
        guard bytes.count >= leastBytes else { return nil }
        return bytes.prefix(leastBytes).reduce(0) { $0 << 8 | UInt64($1) }
    }

    // MARK: Replacing values in requests

    mutating func note(_ templates: [Template]) {
        for text in templates.flatMap(\.parts).compactMap(\.string) {
            for isPart in [{ $0.isPartOfValue }, { $0.isWordByte }] as [(UInt8) -> Bool] {
                for word in text.utf8.split(whereSeparator: { !isPart($0) }) where word.count >= Self.leastBytes {
                    known.insert(Array(word))
                }
            }
        }
    }

    func replace(in request: inout FileRequest) {
        request.mapTemplates { $1 == "cookie" ? replacedCookies($0) : $0.mappingText(replaced) }
    }

    private func replaced(_ text: String) -> Template {
        guard !sources.isEmpty else { return Template(text) }
        let bytes = Array(text.utf8)
        var (template, start, index) = (Template(), 0, 0)
        while index + Self.leastBytes <= bytes.count {
            guard bytes[index].isPartOfValue, index == 0 || !bytes[index - 1].isWordByte,
                let value = value(in: bytes[index...])
            else {
                index += 1
                continue
            }
            template.append(String(decoding: bytes[start..<index], as: UTF8.self))
            template.append(Template(placeholder: value.source))
            index += value.count
            start = index
        }
        template.append(String(decoding: bytes[start...], as: UTF8.self))
        return template
    }

    private func value(in bytes: ArraySlice<UInt8>) -> (count: Int, source: String)? {
        guard let key = Self.key(bytes), let counts = lengths[key] else { return nil }
        for count in counts.sorted(by: >) where count <= bytes.count {
            let endsAtWord = bytes.dropFirst(count).first.map { !$0.isWordByte } ?? true
            if endsAtWord, let source = sources[Array(bytes.prefix(count))] { return (count, source) }
        }
        return nil
    }

    private func replacedCookies(_ template: Template) -> Template {
        guard let text = template.plainText else { return template }
        var result = Template()
        for (place, pair) in text.split(separator: ";").map(\.trimmed).enumerated() {
            if place > 0 { result.append("; ") }
            let name = pair.prefix { $0 != "=" }
            if let cookie = cookies[String(name)], pair.dropFirst(name.count + 1) == cookie.value {
                result.append(name + "=")
                result.append(Template(placeholder: cookie.source))
            } else {
                result.append(pair)
            }
        }
        return result
    }
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
        let digits = bytes.count { (0x30...0x39).contains($0) }
        let capitals = bytes.dropFirst().count { (0x41...0x5A).contains($0) }
        let letters = bytes.count { (0x41...0x5A).contains($0 & 0xDF) }
        if letters == 0 { return digits == bytes.count && bytes.count >= 9 }
        // A timestamp such as 2024-01-01T00:00:00Z may occur in a request by chance.
        if bytes.prefix(4).allSatisfy({ (0x30...0x39).contains($0) }), bytes[4] == UInt8(ascii: "-"), digits >= 8,
            letters <= 3
        {
            return false
        }
        if contains("@") || contains("/") && digits == 0 { return false }
        return digits >= 2 && letters >= 1 || bytes.count >= 20 && capitals >= 3
    }

    fileprivate var jsonStep: String? {
        guard !isEmpty, utf8.allSatisfy({ (0x20..<0x7F).contains($0) && !"{}'\"\\".utf8.contains($0) }) else {
            return nil
        }
        let isShort = utf8.first.map { !(0x30...0x39).contains($0) && $0 != 0x2D } == true
        return isShort && utf8.allSatisfy(\.isWordByte) ? ".\(self)" : "['\(self)']"
    }
}
