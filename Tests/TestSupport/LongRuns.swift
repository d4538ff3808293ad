// The number of cases that a long test runs.
import Foundation

/// Tests over many seeds run a small part of the seeds, or all with `CONVOY_LONG=1` in the environment.
package enum LongRuns {
    package static let areWanted = ProcessInfo.processInfo.environment["CONVOY_LONG"] == "1"

    /// The usual number of cases, or the number for a long run.
    package static func count(_ usual: Int, long: Int) -> Int { areWanted ? long : usual }

    /// The first few of some cases, or all of them in a long run.
    package static func some<Case>(_ usual: Int, of cases: [Case]) -> [Case] {
        areWanted ? cases : Array(cases.prefix(usual))
    }
}
