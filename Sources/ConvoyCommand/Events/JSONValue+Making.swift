import Convoy
import ConvoyHTTPFile
import Foundation

extension JSONValue {
    init(_ number: some BinaryInteger) { self = .integer(Int64(clamping: number)) }
    init(_ texts: some Sequence<String>) { self = .array(texts.map(JSONValue.string)) }
    init(_ date: Date) { self = .string(date.formatted(.iso8601)) }

    static func members(_ members: KeyValuePairs<String, JSONValue?>) -> JSONValue {
        .object(members.compactMap { name, value in value.map { (name, $0) } })
    }
}
