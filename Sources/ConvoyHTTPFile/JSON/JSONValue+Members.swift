import Convoy

extension JSONValue {
    subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.last { $0.name == name }?.value
    }

    var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
    var enabled: [JSONValue] { elements.filter { $0["disabled"]?.isTrue != true } }
    var string: String? { if case .string(let text) = self { text } else { nil } }
    var isTrue: Bool { self == .bool(true) }

    var scalarText: String? {
        switch self {
        case .string, .number, .bool: text
        case .null, .array, .object: nil
        }
    }
}
