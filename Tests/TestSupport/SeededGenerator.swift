import Foundation

/// A generator of reproducible random numbers: SplitMix64.
package struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

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
