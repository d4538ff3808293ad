// Parses an event line without Foundation's decoder, because a report may have 100,000 lines.
import Convoy

extension EventLine {
    /// Parses a line; nil if the line is not an event.
    init?(_ line: [UInt8]) {
        guard let json = try? JSONReader.read(line), case .object(let members) = json else { return nil }
        self.init(event: "")
        var reader = MemberReader()
        for member in members where member.value != .null { read(member, &reader) }
        guard !event.isEmpty, !reader.hasFailed else { return nil }
    }

    private mutating func read(_ member: JSONValue.Member, _ reader: inout MemberReader) {
        let value = member.value
        switch CodingKeys(stringValue: member.name) {
        case .event: event = reader.text(value) ?? ""
        case .index: index = reader.integer(value)
        case .name: name = reader.text(value)
        case .method: method = reader.text(value)
        case .url: url = reader.text(value)
        case .list: list = reader.text(value)
        case .line: line = reader.integer(value)
        case .file: file = reader.text(value)
        case .status: status = reader.integer(value)
        case .bytes: bytes = reader.integer(value)
        case .resumedBytes: resumedBytes = reader.integer(value)
        case .keptBytes: keptBytes = reader.integer(value)
        case .expectedBytes: expectedBytes = reader.integer(value)
        case .seconds: seconds = reader.number(value)
        case .attempt: attempt = reader.integer(value)
        case .attempts: attempts = reader.integer(value)
        case .delaySeconds: delaySeconds = reader.number(value)
        case .location: location = reader.text(value)
        case .cache: cache = reader.text(value)
        case .code: code = reader.text(value)
        case .message: message = reader.text(value)
        case .head: head = reader.list(value) { $0.text($1) }
        case .body: body = reader.text(value)
        case .queuedAt: queuedAt = reader.number(value)
        case .lifeSeconds: lifeSeconds = reader.number(value)
        case .after: after = reader.list(value) { $0.integer($1) }
        case .timeline: timeline = reader.list(value) { AttemptLine($1, &$0) }
        case .succeeded: succeeded = reader.integer(value)
        case .skipped: skipped = reader.integer(value)
        case .failed: failed = reader.integer(value)
        case .unsent: unsent = reader.integer(value)
        case .failures:
            guard case .object(let counts) = value else { return reader.fail() }
            failures = Dictionary(counts.map { ($0.name, reader.integer($0.value) ?? 0) }) { $1 }
        case .cancelled: cancelled = reader.integer(value)
        case .keptFiles: keptFiles = reader.integer(value)
        case .exitStatus: exitStatus = reader.integer(value)
        case nil: break
        }
    }
}

extension AttemptLine {
    fileprivate init?(_ json: JSONValue, _ reader: inout MemberReader) {
        guard case .object(let members) = json else {
            reader.fail()
            return nil
        }
        var (hasStart, hasWait, hasReceive) = (false, false, false)
        self.init(start: 0, wait: 0, receive: 0)
        for member in members where member.value != .null {
            let value = member.value
            switch member.name {
            case "start": (start, hasStart) = (reader.number(value) ?? 0, true)
            case "lookup": lookup = reader.number(value)
            case "connect": connect = reader.number(value)
            case "tls": tls = reader.number(value)
            case "wait": (wait, hasWait) = (reader.number(value) ?? 0, true)
            case "receive": (receive, hasReceive) = (reader.number(value) ?? 0, true)
            case "status": status = reader.integer(value)
            case "code": code = reader.text(value)
            case "next":
                next = reader.text(value).flatMap(Next.init)
                if next == nil { reader.fail() }
            case "delay": delay = reader.number(value)
            case "location": location = reader.text(value)
            default: break
            }
        }
        if !(hasStart && hasWait && hasReceive) { reader.fail() }
    }
}

/// Reads values of one line, and records whether a value has the wrong type.
private struct MemberReader {
    private(set) var hasFailed = false

    mutating func fail() { hasFailed = true }

    mutating func text(_ value: JSONValue) -> String? {
        if case .string(let text) = value { return text }
        fail()
        return nil
    }

    mutating func number(_ value: JSONValue) -> Double? {
        if case .number(let digits) = value, let number = Double(digits), number.isFinite { return number }
        fail()
        return nil
    }

    mutating func integer<Value: FixedWidthInteger>(_ value: JSONValue) -> Value? {
        if case .number(let digits) = value {
            if let number = Value(digits) { return number }
            // 1e3 is an integer too.
            if let number = Double(digits).flatMap(Value.init(exactly:)) { return number }
        }
        fail()
        return nil
    }

    mutating func list<Element>(_ value: JSONValue, _ read: (inout Self, JSONValue) -> Element?) -> [Element]? {
        guard case .array(let elements) = value else {
            fail()
            return nil
        }
        return elements.compactMap { read(&self, $0) }
    }
}
