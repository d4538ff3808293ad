// `--junit`: results for build pipelines.
import ConvoyHTTPFile
import Foundation

/// The results of a run as JUnit XML, with a test case for each request.
struct JUnitReport {
    /// Why a request did not succeed; its name is that of the XML element.
    enum Outcome: String {
        case failure
        /// The request was not sent, or was cancelled.
        case skipped
    }

    /// The name of the file with the requests.
    let suite: String
    private var cases: [(name: String, outcome: Outcome?, message: String, seconds: Double)] = []

    init(suite: String) { self.suite = suite }

    /// Adds a request; without an outcome, the request has succeeded.
    mutating func add(_ name: String, _ outcome: Outcome? = nil, _ message: String = "", seconds: Double = 0) {
        cases.append((name, outcome, message, seconds))
    }

    /// The results as XML.
    ///
    /// - Parameter time: the duration of the complete run.
    func text(after time: Duration) -> String {
        let failures = cases.count { $0.outcome == .failure }
        let skipped = cases.count { $0.outcome == .skipped }
        let name = suite.xmlAttribute
        let head =
            "<testsuite name=\"\(name)\" tests=\"\(cases.count)\" failures=\"\(failures)\" errors=\"0\" "
            + "skipped=\"\(skipped)\" time=\"\(Self.text(time.inSeconds))\">"
        var lines = ["<?xml version=\"1.0\" encoding=\"UTF-8\"?>", "<testsuites>", head]
        for item in cases {
            let start =
                "<testcase classname=\"\(name)\" name=\"\(item.name.xmlAttribute)\" time=\"\(Self.text(item.seconds))\""
            let end = item.outcome.map { "><\($0.rawValue) message=\"\(item.message.xmlAttribute)\"/></testcase>" }
            lines.append(start + (end ?? "/>"))
        }
        return (lines + ["</testsuite>", "</testsuites>", ""]).joined(separator: "\n")
    }

    /// Seconds with three decimals.
    private static func text(_ seconds: Double) -> String { String(format: "%.3f", max(0, min(seconds, 1e9))) }
}

extension String {
    /// The text escaped for an attribute.
    ///
    /// Characters that XML does not allow become question marks.
    fileprivate var xmlAttribute: String {
        let scalars = unicodeScalars.map { scalar -> Unicode.Scalar in
            switch scalar.value {
            case 0x09, 0x0A, 0x0D: " "
            case ..<0x20, 0xFFFE...0xFFFF: "?"
            default: scalar
            }
        }
        return String(String.UnicodeScalarView(scalars)).xmlEscaped(isInTag: true)
    }
}
