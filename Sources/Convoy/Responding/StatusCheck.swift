// Which status codes are an answer and which are a failure.

/// Decides whether a status code is acceptable.
public struct StatusCheck: Sendable {
    private let accepts: @Sendable (Int) -> Bool

    /// Not public: it runs on a transport's thread, where no user code may.
    init(_ accepts: @escaping @Sendable (Int) -> Bool) { self.accepts = accepts }

    /// 200 to 299: the default.
    public static let successful = StatusCheck { (200..<300).contains($0) }
    /// Every status code, for callers who decide themselves.
    public static let any = StatusCheck { _ in true }
    /// Those from a first to a last.
    public static func range(_ codes: ClosedRange<Int>) -> StatusCheck { StatusCheck { codes.contains($0) } }
    /// Exactly these.
    public static func codes(_ codes: Set<Int>) -> StatusCheck { StatusCheck { codes.contains($0) } }

    func callAsFunction(_ statusCode: Int) -> Bool { accepts(statusCode) }
}
