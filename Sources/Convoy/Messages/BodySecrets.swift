// The secrets in the body of a request: a form or JSON in memory.
import Foundation

extension RequestBody {
    /// The maximum size of a body that is searched for secrets.
    private static let mostSearchedBytes = 64 << 10
    /// The maximum number of secrets of one body.
    ///
    /// Each is searched for in every text of a server.
    private static let mostSecrets = 100
    /// The minimum length of a secret in bytes, because shorter values are mostly ordinary words.
    private static let shortestSecret = 6

    /// The values of a form or of JSON whose names suggest a secret.
    func secrets(_ words: SecretWords, contentType: String) -> [String] {
        guard let bytes = bytesInMemory, bytes.count <= Self.mostSearchedBytes else { return [] }
        let contentType = contentType.lowercased()
        let values =
            if contentType.contains("json") {
                (try? JSONReader.read(Array(bytes)))?.secrets(words) ?? []
            } else if contentType.hasPrefix("multipart/form-data") {
                words.valuesOfSecrets(multipart: String(decoding: bytes, as: UTF8.self))
            } else if contentType.hasPrefix("application/x-www-form-urlencoded") {
                words.valuesOfSecrets(form: String(decoding: bytes, as: UTF8.self))
            } else {
                [String]()
            }
        let long = values.filter { $0.utf8.count >= Self.shortestSecret }
        return Array(long.sorted { $0.utf8.count > $1.utf8.count }.prefix(Self.mostSecrets))
    }

    /// The bytes in memory; nil for a file or a stream.
    ///
    /// A joined body contributes only its parts in memory.
    private var bytesInMemory: Data? {
        switch self {
        case .data(let data): data
        case .joined(let bodies): bodies.compactMap(\.bytesInMemory).reduce(into: Data()) { $0 += $1 }
        case .file, .stream: nil
        }
    }
}

extension JSONValue {
    /// The texts of members whose own names suggest a secret.
    ///
    /// Numbers are left out, because a short number is part of many texts. A member `key` is left out too, because it
    /// mostly names an entry.
    fileprivate func secrets(_ words: SecretWords) -> [String] {
        switch self {
        case .null, .bool, .number, .string: []
        case .array(let elements): elements.flatMap { $0.secrets(words) }
        case .object(let members):
            members.flatMap { member in
                let isSecret = words.isSecretItself(member.name) && member.name.lowercased() != "key"
                return member.value.secrets(words) + (isSecret ? member.value.texts : [])
            }
        }
    }

    /// The text itself, or the texts in an array; empty for any other value.
    private var texts: [String] {
        switch self {
        case .string(let text): [text]
        case .array(let elements): elements.flatMap { if case .string(let text) = $0 { [text] } else { [String]() } }
        case .null, .bool, .number, .object: []
        }
    }
}
