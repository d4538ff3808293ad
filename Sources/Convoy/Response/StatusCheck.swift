// Which status codes are an answer and which are a failure.

/// Decides whether a status code is acceptable.
///
/// A value, not a function: it is asked on a transport's thread, where no user code may run.
public struct StatusCheck: Sendable, Hashable {
    private enum Kind: Hashable {
        case any
        case range(ClosedRange<Int>)
        case codes(Set<Int>)
    }

    private let kind: Kind

    /// 200 to 299: the default.
    public static let successful = StatusCheck(kind: .range(200...299))
    /// Every status code, for callers that decide themselves.
    public static let any = StatusCheck(kind: .any)
    /// Those from a first to a last.
    public static func range(_ codes: ClosedRange<Int>) -> StatusCheck { StatusCheck(kind: .range(codes)) }
    /// Exactly these.
    public static func codes(_ codes: Set<Int>) -> StatusCheck { StatusCheck(kind: .codes(codes)) }

    func callAsFunction(_ statusCode: Int) -> Bool {
        switch kind {
        case .any: true
        case .range(let codes): codes.contains(statusCode)
        case .codes(let codes): codes.contains(statusCode)
        }
    }
}
