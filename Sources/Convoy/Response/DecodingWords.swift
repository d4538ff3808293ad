// Decoding errors as readable text.
import Foundation

extension Error {
    /// A decoding error as text: the place in the body, the expected and the found value.
    ///
    /// For any other error, the text is the error's own description.
    var decodingWords: String {
        switch self as? DecodingError {
        case .typeMismatch(let type, let context)?:
            context.place + "expected \(DecodingError.name(type))"
                + (context.found.map { ", found \($0)" } ?? ": \(context.shortDescription)")
        case .valueNotFound(let type, let context)?: context.place + "expected \(DecodingError.name(type)), found null"
        case .keyNotFound(let key, let context)?:
            context.place + "the key \(String(key.stringValue.prefix(64)).debugDescription) is missing"
        case .dataCorrupted(let context)?: context.place + context.shortDescription
        default: "\(self)"
        }
    }
}

extension DecodingError {
    /// The name of the type that the decoder expected.
    ///
    /// Decoders report `[String: Any]` and `[Any]` for an object and an array. These types get their JSON names.
    fileprivate static func name(_ type: any Any.Type) -> String {
        if type == [String: Any].self { return "an object" }
        return type == [Any].self ? "an array" : String(String(describing: type).prefix(100))
    }
}

extension DecodingError.Context {
    /// The coding path, for example `at user.tags[2]: `; empty for the complete body.
    ///
    /// A long path is shortened, because keys in a body can be of any length.
    fileprivate var place: String {
        if codingPath.isEmpty { return "" }
        var path = ""
        for key in codingPath {
            let name = String(key.stringValue.prefix(64))
            if let index = key.intValue {
                path += "[\(index)]"
            } else if name.allSatisfy({ $0.isLetter || $0.isNumber || $0 == "_" || $0 == "-" }), !name.isEmpty {
                path += path.isEmpty ? name : ".\(name)"
            } else {
                path += "[\(name.debugDescription)]"
            }
            if path.count > 200 { return "at \(path)…: " }
        }
        return "at \(path): "
    }

    /// The kind of value that was found, from Foundation's text `… but found X instead`; nil for any other text.
    fileprivate var found: String? {
        guard let start = debugDescription.range(of: " but found ")?.upperBound,
            let end = debugDescription.range(of: " instead", range: start..<debugDescription.endIndex)?.lowerBound
        else { return nil }
        return String(debugDescription[start..<end].prefix(100))
    }

    /// The decoder's description, shortened because it may contain a value of the body.
    fileprivate var shortDescription: String { String(debugDescription.prefix(300)) }
}
