// JSONPath (RFC 9535): names, indices, slices, wildcards and descendants, but no filters.
import Convoy

package struct JSONPath: Hashable, Sendable {
    package enum Selector: Hashable, Sendable {
        case name(String)
        case index(Int)
        case slice(start: Int?, end: Int?, step: Int)
        case wildcard
    }

    package struct Segment: Hashable, Sendable {
        package var selectors: [Selector]
        package var isDescendant: Bool
    }

    package private(set) var segments: [Segment]

    package init(segments: [Segment]) { self.segments = segments }

    package init(_ text: String) throws(Defect) {
        var reader = JSONPathReader(text)
        do throws(Defect) { segments = try reader.read() } catch {
            throw Defect("\(text.shown) is not a JSONPath: \(error.what)", error.advice)
        }
    }

    func appending(names: [String]) -> JSONPath {
        JSONPath(segments: segments + names.map { Segment(selectors: [.name($0)], isDescendant: false) })
    }

    // A path with several `..` selects a node once for each way to reach it, which may be very often. A segment that
    // has visited a million nodes skips the other nodes.
    package func nodes(in root: JSONValue, atMost limit: Int = .max) -> [JSONValue] {
        var nodes = [root]
        for segment in segments {
            var (next, count) = ([JSONValue](), 0)
            for node in nodes {
                let parents = segment.isDescendant ? node.descendants : [node]
                for parent in parents { for selector in segment.selectors { next += parent.children(selector) } }
                count += parents.count
                if count > 1_000_000 { break }
            }
            nodes = next
        }
        return Array(nodes.prefix(limit))
    }
}

extension JSONValue {
    fileprivate var descendants: [JSONValue] {
        var (all, open) = ([JSONValue](), [self])
        while let value = open.popLast() {
            all.append(value)
            switch value {
            case .array(let elements): open += elements.reversed()
            case .object(let members): open += members.reversed().map(\.value)
            default: break
            }
        }
        return all
    }

    fileprivate func children(_ selector: JSONPath.Selector) -> [JSONValue] {
        switch (self, selector) {
        case (.object(let members), .name(let name)): return members.last { $0.name == name }.map { [$0.value] } ?? []
        case (.object(let members), .wildcard): return members.map(\.value)
        case (.array(let elements), .wildcard): return elements
        case (.array(let elements), .index(let index)):
            let place = index < 0 ? elements.count + index : index
            return elements.indices.contains(place) ? [elements[place]] : []
        case (.array(let elements), .slice(let start, let end, let step)):
            return Self.places(start, end, step, elements.count).map { elements[$0] }
        default: return []
        }
    }

    /// The indices that a slice selects (RFC 9535, section 2.3.4.2.2).
    private static func places(_ start: Int?, _ end: Int?, _ step: Int, _ count: Int) -> [Int] {
        guard step != 0 else { return [] }
        func normalized(_ index: Int) -> Int { index >= 0 ? index : count + index }
        if step > 0 {
            let lower = min(max(normalized(start ?? 0), 0), count)
            let upper = min(max(normalized(end ?? count), 0), count)
            return Array(stride(from: lower, to: upper, by: step))
        }
        let upper = min(max(normalized(start ?? count - 1), -1), count - 1)
        let lower = min(max(end.map(normalized) ?? -1, -1), count - 1)
        return Array(stride(from: upper, to: lower, by: step))
    }
}

struct JSONPathReader {
    private let characters: [Character]
    private var index = 0

    init(_ text: String) { characters = Array(text) }

    private var next: Character? { index < characters.count ? characters[index] : nil }

    mutating func read() throws(Defect) -> [JSONPath.Segment] {
        guard take("$") else { throw Defect("it does not begin with $", "write $.name") }
        var segments: [JSONPath.Segment] = []
        while true {
            let before = index
            skipBlanks()
            guard next != nil else {
                guard before == index else { throw Defect("it ends with a space", "remove it") }
                return segments
            }
            segments.append(try segment())
        }
    }

    private mutating func segment() throws(Defect) -> JSONPath.Segment {
        let isDot = take(".")
        let isDescendant = isDot && take(".")
        if !isDot || isDescendant, take("[") {
            return JSONPath.Segment(selectors: try bracketed(), isDescendant: isDescendant)
        }
        guard isDot else {
            throw Defect("\(String(next ?? " ").shown) is in the place of . or [", "write $.name or $[0]")
        }
        if take("*") { return JSONPath.Segment(selectors: [.wildcard], isDescendant: isDescendant) }
        let isName = next?.isASCIIDigit == false && next != "-"
        let name = isName ? taken(while: \.isShorthand) : ""
        guard !name.isEmpty else {
            throw Defect("no name follows \(isDescendant ? ".." : ".")", "write $.name, or $['a name'] in quotes")
        }
        return JSONPath.Segment(selectors: [.name(name)], isDescendant: isDescendant)
    }

    private mutating func bracketed() throws(Defect) -> [JSONPath.Selector] {
        var selectors: [JSONPath.Selector] = []
        repeat {
            skipBlanks()
            selectors.append(try selector())
            skipBlanks()
        } while take(",")
        guard take("]") else { throw Defect("[ is not closed", "write ] after the number or the name in quotes") }
        return selectors
    }

    private mutating func selector() throws(Defect) -> JSONPath.Selector {
        switch next {
        case "*":
            index += 1
            return .wildcard
        case let quote? where "'\"".contains(quote): return .name(try quoted(quote))
        case "?", "(":
            throw Defect(
                "filters are not supported", "choose by name, number, slice or *: $.items[0], $.items[-1], $..name")
        case ":", "-",
            _ where next?.isASCIIDigit == true:
            return try numbered()
        default:
            throw Defect(
                "\(String(next ?? " ").shown) is neither a number nor a name in quotes", "write [0] or ['name']")
        }
    }

    private mutating func numbered() throws(Defect) -> JSONPath.Selector {
        let start = try number()
        guard take(":") else {
            guard let start else { throw Defect("no digits follow -", "write [-1] for the last one") }
            return .index(start)
        }
        let end = try number()
        return try .slice(start: start, end: end, step: take(":") ? number() ?? 1 : 1)
    }

    private mutating func number() throws(Defect) -> Int? {
        skipBlanks()
        defer { skipBlanks() }
        let isNegative = take("-")
        let digits = taken(while: \.isASCIIDigit)
        guard !digits.isEmpty else {
            if isNegative { throw Defect("no digits follow -", "write [-1] for the last one") }
            return nil
        }
        guard digits == "0" ? !isNegative : !digits.hasPrefix("0") else {
            throw Defect(
                "\(isNegative ? "-" : "")\(digits) is not the number of an element", "write it without the zero")
        }
        // RFC 9535, section 2.1, limits integers to the range that I-JSON (RFC 7493) allows: below 2^53.
        guard let number = Int(digits), number < 1 << 53 else {
            throw Defect("\(digits) is too large", "write a number below 9007199254740992")
        }
        return isNegative ? -number : number
    }

    /// The escapes are those of JSON, but for `\'`, and half of a surrogate pair is refused.
    private mutating func quoted(_ quote: Character) throws(Defect) -> String {
        index += 1
        var json = ""
        while let character = next, character != quote {
            index += 1
            guard character == "\\", let escaped = next else {
                json += character == "\"" ? "\\\"" : String(character)
                continue
            }
            index += 1
            json += quote == "\"" || !"'\"".contains(escaped) ? "\\\(escaped)" : escaped == "'" ? "'" : "\\'"
        }
        guard take(quote) else { throw Defect("a name in quotes is not closed", "write \(quote) after it") }
        do throws(JSONReader.Defect) {
            let name = try JSONReader.read(Array("\"\(json)\"".utf8)).text
            if !json.contains("\\u") || !name.contains("\u{FFFD}") { return name }
        } catch { throw Defect(error.what, "write \\\\ for a backslash, and \\u0041 for another character") }
        throw Defect("an escape is half of a character", "write \\ud83d\\ude00 for example")
    }

    private mutating func take(_ character: Character) -> Bool {
        guard next == character else { return false }
        index += 1
        return true
    }

    private mutating func taken(while isMeant: (Character) -> Bool) -> String {
        let taken = characters[index...].prefix(while: isMeant)
        index = taken.endIndex
        return String(taken)
    }

    private mutating func skipBlanks() { _ = taken { " \t\n\r\r\n".contains($0) } }
}

extension Character {
    var isASCIIDigit: Bool { isASCII && isNumber }

    /// RFC 9535 does not allow -, but names of header fields contain it.
    fileprivate var isShorthand: Bool { "_-".contains(self) || !isASCII || isLetter || isASCIIDigit }
}
