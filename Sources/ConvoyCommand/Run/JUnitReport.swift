// `--junit`: results for build pipelines.
import Foundation

/// The results of a run as JUnit XML, with a test case for each request.
struct JUnitReport {
    enum Outcome {
        case success
        case failure(String)
        /// The request was not sent, or was cancelled.
        case skipped(String)
    }

    /// The name of the file with the requests.
    let suite: String
    private var cases: [(name: String, outcome: Outcome, seconds: Double)] = []

    init(suite: String) { self.suite = suite }

    mutating func add(_ name: String, _ outcome: Outcome, seconds: Double = 0) {
        cases.append((name, outcome, seconds))
    }

    /// - Parameter time: the duration of the complete run.
    func text(after time: Duration) -> String {
        let failures = cases.count { if case .failure = $0.outcome { true } else { false } }
        let skipped = cases.count { if case .skipped = $0.outcome { true } else { false } }
        let name = suite.xmlEscaped
        let head =
            "<testsuite name=\"\(name)\" tests=\"\(cases.count)\" failures=\"\(failures)\" errors=\"0\" "
            + "skipped=\"\(skipped)\" time=\"\(Self.text(time.inSeconds))\">"
        var lines = ["<?xml version=\"1.0\" encoding=\"UTF-8\"?>", "<testsuites>", head]
        for item in cases {
            let start =
                "<testcase classname=\"\(name)\" name=\"\(item.name.xmlEscaped)\" time=\"\(Self.text(item.seconds))\""
            switch item.outcome {
            case .success: lines.append(start + "/>")
            case .failure(let message):
                lines.append(start + "><failure message=\"\(message.xmlEscaped)\"/></testcase>")
            case .skipped(let message):
                lines.append(start + "><skipped message=\"\(message.xmlEscaped)\"/></testcase>")
            }
        }
        return (lines + ["</testsuite>", "</testsuites>", ""]).joined(separator: "\n")
    }

    /// Seconds with three decimals.
    private static func text(_ seconds: Double) -> String {
        let milliseconds = Int64((max(0, min(seconds, 1e9)) * 1_000).rounded())
        let digits = String(milliseconds % 1_000)
        return "\(milliseconds / 1_000)." + String(repeating: "0", count: 3 - digits.count) + digits
    }
}

extension String {
    /// The text escaped for an attribute.
    ///
    /// Characters that XML does not allow become question marks.
    fileprivate var xmlEscaped: String {
        var result = ""
        for scalar in unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "\n", "\r", "\t": result += " "
            case _ where scalar.value < 0x20 || (0xFFFE...0xFFFF).contains(scalar.value): result += "?"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
