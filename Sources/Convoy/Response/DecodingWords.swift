// Decoding errors as readable text.
import Foundation

extension Error {
    /// A decoding error as text: the place in the body, the expected and the found value.
    ///
    /// Other errors are described as usual.
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
    /// The name of the wanted type.
    ///
    /// An internal type of a decoder is named after its JSON value, object or array.
    fileprivate static func name(_ type: any Any.Type) -> String {
        if type == [String: Any].self { return "an object" }
        return type == [Any].self ? "an array" : String(String(describing: type).prefix(100))
    }
}

extension DecodingError.Context {
    /// The coding path, for example `at user.tags[2]: `; empty for the complete body.
    ///
    /// A long path is shortened, because a body may have any key.
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

    /// The found value, as Foundation reports it.
    fileprivate var found: String? {
        guard let start = debugDescription.range(of: " but found ")?.upperBound,
            let end = debugDescription.range(of: " instead", range: start..<debugDescription.endIndex)?.lowerBound
        else { return nil }
        return String(debugDescription[start..<end].prefix(100))
    }

    /// The decoder's description, shortened because it may contain a value of the body.
    fileprivate var shortDescription: String { String(debugDescription.prefix(300)) }
}
