// swift-format-ignore-file
// The used parts of Apple's unified logging.

public struct Logger: Sendable {
    public init(subsystem: String, category: String) {}
    public func log(level: OSLogType, _ message: OSLogMessage) {}
}

public struct OSLogType: Sendable {
    public static var debug: OSLogType { OSLogType() }
    public static var info: OSLogType { OSLogType() }
    public static var `default`: OSLogType { OSLogType() }
    public static var error: OSLogType { OSLogType() }
    public static var fault: OSLogType { OSLogType() }
}

public struct OSLogPrivacy {
    public static var `public`: OSLogPrivacy { OSLogPrivacy() }
    public static var `private`: OSLogPrivacy { OSLogPrivacy() }
}

public struct OSLogMessage: ExpressibleByStringInterpolation {
    public init(stringLiteral value: String) {}
    public init(stringInterpolation: Interpolation) {}

    public struct Interpolation: StringInterpolationProtocol {
        public init(literalCapacity: Int, interpolationCount: Int) {}
        public mutating func appendLiteral(_ literal: String) {}
        public mutating func appendInterpolation(
            _ value: @autoclosure @escaping () -> String, privacy: OSLogPrivacy = .private
        ) {}
    }
}
