import Foundation
import Testing

/// Runs lines of the table with the command, and compares their effects with those in curl.
///
/// Lines marked `told` run only with the command. Lines marked `differs` do not run.
@Suite(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/curl"), "curl is not installed"))
struct CurlManualTests {
    private static func lines(_ fate: CurlManualLines.Fate) -> [String] {
        CurlManualLines.all.filter { $0.fate == fate }.map { String($0.line) }
    }

    private func curl(_ line: String) async throws -> CurlLineOutcome {
        try await CurlLineOutcome.of(line, byCommand: nil).0
    }

    private func convoy(_ line: String, _ more: String...) async throws -> (CurlLineOutcome, errors: String) {
        try await CurlLineOutcome.of(line, byCommand: ["fetch", "--no-config"] + more)
    }

    @Test(arguments: lines(.alike)) func aCurlCommandHasTheSameEffect(line: String) async throws {
        let (ours, errors) = try await convoy(line)
        let curls = try await curl(line)
        #expect(ours == curls, "\(errors)")
    }

    @Test(arguments: lines(.printed)) func aCurlCommandPrintsTheSameWithADash(line: String) async throws {
        let (ours, errors) = try await convoy(line, "-o", "-")
        let curls = try await curl(line)
        #expect(ours == curls, "\(errors)")
        let alone = try await convoy(line).0
        #expect(alone.requests == curls.requests && alone.files != curls.files)
    }

    @Test(arguments: lines(.told)) func anUnsupportedCurlCommandSendsNothingAndGivesAdvice(line: String) async throws {
        let (ours, errors) = try await convoy(line)
        #expect(ours.hasFailed && ours.requests == [] && ours.files == [:])
        // The message names a correction after the mistake.
        #expect(
            errors.contains(
                #/^convoy: [^\n]*[:;,] [^\n]*(write|curl's|use curl|such as|remove|run |is --|sets the address|chooses|the final URL)/#
            ), "\(errors)")
    }

    @Test func mostCurlCommandsHaveTheSameEffect() {
        let counts = CurlManualLines.all.reduce(into: [:]) { $0[$1.fate, default: 0] += 1 }
        let rows = CurlManualLines.Fate.allCases.map { "\($0.rawValue) \(counts[$0] ?? 0)" }
        print("curl's lines: \(rows.joined(separator: ", ")), of \(CurlManualLines.all.count)")
        #expect(CurlManualLines.all.count >= 120)
        #expect(counts[.alike, default: 0] >= 100)
        #expect(counts[.differs, default: 0] <= 1)
    }
}
