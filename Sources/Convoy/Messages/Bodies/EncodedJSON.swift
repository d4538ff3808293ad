// A JSON body that may be encoded anew.
import Foundation

/// JSON as a plain encoder has made it, and how another encoder makes it of the same value.
///
/// A class, so that a body stays small; equal when its bytes are.
final class EncodedJSON: Sendable, Hashable {
    let data: Data
    private let encode: @Sendable (JSONEncoder) throws -> Data

    /// - Parameter encode: runs on the thread that makes an operation, never under a lock.
    init(_ data: Data, encode: @escaping @Sendable (JSONEncoder) throws -> Data) {
        (self.data, self.encode) = (data, encode)
    }

    /// What an encoder makes of the value; nil for the plain encoder.
    func encoded(by encoder: JSONEncoder?) throws -> Data { try encoder.map(encode) ?? data }

    static func == (left: EncodedJSON, right: EncodedJSON) -> Bool { left.data == right.data }

    func hash(into hasher: inout Hasher) { hasher.combine(data) }
}
