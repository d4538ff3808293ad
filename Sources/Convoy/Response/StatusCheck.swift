// Which status codes are acceptable.

/// Decides whether a status code is acceptable.
///
/// The check is a value instead of a function, because it runs on a transport's thread, where no user code may run.
public struct StatusCheck: Sendable, Hashable {
    private enum Kind: Hashable {
        case any
        case range(ClosedRange<Int>)
        case codes(Set<Int>)
    }

    private let kind: Kind

    /// Accepts 200 to 299; this is the default of a manager.
    public static let successful = StatusCheck(kind: .range(200...299))
    /// Accepts every status code, for a caller that examines the code itself.
    public static let any = StatusCheck(kind: .any)
    /// Accepts the codes in a range.
    public static func range(_ codes: ClosedRange<Int>) -> StatusCheck { StatusCheck(kind: .range(codes)) }
    /// Accepts the codes in a set.
    public static func codes(_ codes: Set<Int>) -> StatusCheck { StatusCheck(kind: .codes(codes)) }

    func callAsFunction(_ statusCode: Int) -> Bool {
        switch kind {
        case .any: true
        case .range(let codes): codes.contains(statusCode)
        case .codes(let codes): codes.contains(statusCode)
        }
    }
}
