// Which status codes are acceptable.

/// Decides whether a status code is acceptable, without user code, because it runs on a transport's thread.
public struct StatusCheck: Sendable, Hashable {
    private let codes: RangeSet<Int>

    /// Accepts 200 to 299; this is the default of a manager.
    public static let successful = StatusCheck(codes: RangeSet(200..<300))
    /// Accepts every status code, for a caller that examines the code itself.
    public static let any = StatusCheck(codes: RangeSet(.min ..< .max))
    /// Accepts the codes in a range.
    public static func range(_ codes: ClosedRange<Int>) -> StatusCheck {
        StatusCheck(codes: RangeSet(Range(codes.clamped(to: .min ... .max - 1))))
    }
    /// Accepts the codes in a set.
    public static func codes(_ codes: Set<Int>) -> StatusCheck {
        StatusCheck(codes: RangeSet(codes.filter { $0 < .max }.map { $0..<$0 + 1 }))
    }

    func callAsFunction(_ statusCode: Int) -> Bool { codes.contains(statusCode) }
}

/// A value instead of a function, for the reason of ``StatusCheck``.
struct ContentTypeCheck: Sendable, Hashable {
    private let ranges: [String]

    init(_ ranges: [String]) { self.ranges = ranges.compactMap(Self.mediaType) }

    static func defect(of ranges: [String]) -> String? {
        if ranges.isEmpty { return "the list of acceptable content types is empty" }
        let wrong = ranges.first { range in
            range != "*/*" && (range.contains(";") || mediaType(of: range) == nil || range.hasPrefix("*/"))
        }
        return wrong.map { "\($0.debugDescription) is not a content type such as text/html or image/*" }
    }

    func callAsFunction(_ type: String) -> Bool {
        ranges.contains { range in
            range == type || range == "*/*" || range.hasSuffix("/*") && type.hasPrefix(range.dropLast())
        }
    }

    var description: String { ranges.joined(separator: ", ") }

    static func mediaType(of contentType: String) -> String? {
        let type = String(contentType.prefix { $0 != ";" }).trimmingBlanks.lowercased()
        let parts = type.split(separator: "/", omittingEmptySubsequences: false)
        return parts.count == 2 && parts.allSatisfy { String($0).isHTTPToken } ? type : nil
    }
}
