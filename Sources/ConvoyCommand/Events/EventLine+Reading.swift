// Parses event lines without Foundation's decoder, which is slow for a file of 100,000 lines.
import Convoy
import ConvoyHTTPFile

extension EventLine {
    /// Parses a line; nil if the line is not an event.
    init?(_ line: [UInt8]) {
        guard let json = try? JSONReader.read(line), case .object(let members) = json else { return nil }
        self.init(event: "")
        do {
            for member in members where member.value != .null { try read(member) }
        } catch { return nil }
        if event.isEmpty { return nil }
    }

    private mutating func read(_ member: JSONValue.Member) throws {
        let value = member.value
        switch CodingKeys(stringValue: member.name) {
        case .event: event = try value.string()
        case .index: index = try value.integer()
        case .name: name = try value.string()
        case .method: method = try value.string()
        case .url: url = try value.string()
        case .list: list = try value.string()
        case .line: line = try value.integer()
        case .status: status = try value.integer()
        case .bytes: bytes = try value.integer()
        case .resumedBytes: resumedBytes = try value.integer()
        case .seconds: seconds = try value.number()
        case .attempts: attempts = try value.integer()
        case .cache: cache = try value.string()
        case .code: code = try value.string()
        case .message: message = try value.string()
        case .head: head = try value.list { try $0.string() }
        case .queuedAt: queuedAt = try value.number()
        case .lifeSeconds: lifeSeconds = try value.number()
        case .after: after = try value.list { try $0.integer() }
        case .timeline: timeline = try value.list(AttemptLine.init)
        // A report does not use the other members.
        default: break
        }
    }
}

extension AttemptLine {
    fileprivate init(_ json: JSONValue) throws {
        guard case .object(let members) = json else { throw WrongType() }
        self.init(start: .nan, wait: .nan, receive: .nan)
        for member in members where member.value != .null {
            let value = member.value
            switch member.name {
            case "start": start = try value.number()
            case "lookup": lookup = try value.number()
            case "connect": connect = try value.number()
            case "tls": tls = try value.number()
            case "wait": wait = try value.number()
            case "receive": receive = try value.number()
            case "status": status = try value.integer()
            case "code": code = try value.string()
            case "next":
                guard let step = Next(rawValue: try value.string()) else { throw WrongType() }
                next = step
            case "delay": delay = try value.number()
            case "location": location = try value.string()
            default: break
            }
        }
        // The initializer set the required times to NaN. JSON has no NaN, so a time that is still NaN is missing.
        if (start + wait + receive).isNaN { throw WrongType() }
    }
}

/// The value of a member has the wrong type.
private struct WrongType: Error {}

extension JSONValue {
    fileprivate func string() throws -> String {
        guard case .string(let text) = self else { throw WrongType() }
        return text
    }

    fileprivate func number() throws -> Double {
        guard case .number(let digits) = self, let number = Double(digits), number.isFinite else { throw WrongType() }
        return number
    }

    fileprivate func integer<Value: FixedWidthInteger>() throws -> Value {
        // An integer may have an exponent, such as 1e3.
        guard case .number(let digits) = self,
            let number = Value(digits) ?? Double(digits).flatMap(Value.init(exactly:))
        else { throw WrongType() }
        return number
    }

    fileprivate func list<Element>(_ read: (JSONValue) throws -> Element) throws -> [Element] {
        guard case .array(let elements) = self else { throw WrongType() }
        return try elements.map(read)
    }
}
