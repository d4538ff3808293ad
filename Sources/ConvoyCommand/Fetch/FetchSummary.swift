import Convoy
import Foundation

struct FetchSummary: Sendable, Equatable {
    var succeededCount = 0
    var skippedCount = 0
    var failures: [String: Int] = [:]
    private(set) var firstFailures: [String] = []
    private static let firstFailureCount = 5
    var cancelledCount = 0
    var bytes: Int64 = 0
    var resumedBytes: Int64 = 0
    var kept = KeptParts()
    var time = Duration.zero
    var reason: ExitStatus?
    var discards = false
    var directory: String?
    var replacesFiles = false

    var failedCount: Int { failures.values.reduce(0, +) }

    mutating func count(_ outcome: FetchOutcome, isStopping: Bool) {
        switch outcome.result {
        case .success(let success) where success.isSkipped: skippedCount += 1
        case .success(let success):
            succeededCount += 1
            bytes += success.bytes - success.resumedBytes
            resumedBytes += success.resumedBytes
        case .failure(let error):
            if isStopping, outcome.isCancelled {
                cancelledCount += 1
            } else {
                countFailure(error.code.rawValue, "\(outcome.item.url.redactedString): \(outcome.cause ?? "")")
            }
        }
        if let part = outcome.keptBytes { kept.add(part) }
    }

    mutating func countFailure(_ code: String, _ line: String? = nil) {
        failures[code, default: 0] += 1
        if let line, firstFailures.count < Self.firstFailureCount { firstFailures.append(line) }
    }

    func progress(_ counts: RunProgress, _ running: [RunningTransfer]) -> RunProgress {
        var progress = counts
        (progress.skippedCount, progress.savedCount) = (skippedCount, succeededCount)
        progress.savedBytes = bytes + resumedBytes
        progress.receivedBytes = running.reduce(progress.savedBytes) { $0 &+ $1.receivedBytes }
        progress.resumedBytes = running.reduce(resumedBytes) { $0 &+ $1.resumedBytes }
        return progress
    }

    var status: ExitStatus { reason ?? (failedCount == 0 ? .success : .failure) }

    var lines: [String] {
        var lines = [text]
        if succeededCount + skippedCount > 0 {
            lines += firstFailures.map { "failed: \($0)" }
            let others = failedCount - firstFailures.count
            if others > 0, !firstFailures.isEmpty { lines.append("failed: \(others) more") }
            if let directory { lines.append("the files are in \(directory)") }
        }
        return lines + (advice.map { [$0] } ?? [])
    }

    var text: String {
        var text = (reason?.reason).map { "\($0): " } ?? ""
        text += "\(Figures.count(succeededCount, discards ? "response" : "file")), \(Figures.bytes(bytes))"
        if resumedBytes > 0 { text += " and \(Figures.bytes(resumedBytes)) from an earlier run" }
        text += " in \(Figures.time(time))"
        if succeededCount > 0, time.inSeconds > 0.05 { text += " (\(Figures.rate(Double(bytes) / time.inSeconds)))" }
        if skippedCount > 0 { text += ", \(skippedCount) skipped" }
        if failedCount > 0 { text += ", \(failedCount) failed (\(failuresByCode))" }
        if cancelledCount > 0 { text += ", \(cancelledCount) cancelled" }
        return status == .success ? text : "\(text); exit status \(status.code)"
    }

    private var failuresByCode: String {
        failures.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { "\($0.value) \(Words.code($0.key))" }
            .joined(separator: ", ")
    }

    private var advice: String? {
        // After an interruption, the advice names the option that keeps a repeated run from fetching complete files
        // again.
        let isWorthSkipping = reason != nil && replacesFiles && succeededCount > 0
        let skipping = "with --existing skip it skips \(Figures.count(succeededCount, "complete file"))"
        let again =
            "the same command tries them again" + (replacesFiles ? "; --existing skip skips complete files" : "")
        switch kept.text {
        case let text?: return isWorthSkipping ? "\(text), and \(skipping)" : text
        case nil where isWorthSkipping: return "the same command starts over; \(skipping)"
        case nil: return reason == nil && failedCount > 0 && succeededCount > 0 ? again : nil
        }
    }
}

extension FetchSummary {
    init(_ options: FetchOptions) {
        self.init(discards: options.discards, directory: options.discards ? nil : options.directory)
        // If the server chooses the name, the name is known too late to skip the request.
        let isRepeated =
            ![.skip, .fail, .updateIfChanged].contains(options.existing) && options.sending.newer == nil
            && !options.takesProposedNames
        replacesFiles = isRepeated && !discards
    }
}

struct KeptParts: Sendable, Equatable {
    var count = 0
    var bytes: Int64 = 0

    mutating func add(_ part: Int64) {
        count += 1
        bytes += part
    }

    var text: String? {
        guard count > 0 else { return nil }
        let (verb, object) = count == 1 ? ("is", "it") : ("are", "them")
        return
            "\(Figures.count(count, "file")) \(verb) kept in part, \(Figures.bytes(bytes)); the same command continues \(object)"
    }
}

// The parts are `.NAME.convoy-part`, each with its record `.NAME.convoy-resume`. Bytes that the same command would
// request again do not count.
struct PartFinder: Sendable {
    let directory: String
    let knowsNames: Bool
    let usesSegments: Bool
    let started: Date
    var numbersNames = false

    func keptBytes(of item: FetchItem) -> Int64? {
        if knowsNames { return part(item.fileName, of: item)?.count }
        guard numbersNames else { return nil }
        for number in 0..<10_000 {
            let name = number == 0 ? item.fileName : FileName.numberedPath(item.fileName, number)
            if let kept = part(name, of: item), isOfThisRun(kept.noted) { return kept.count }
            // If a file with this name or with the name of its part exists, the next number is tried.
            let path = FilePath(name)
            let place = path.directory(in: directory)
            let isTaken = [path.last, PartName(path.last).part].contains {
                FileType.of(place + "/" + $0, followsLinks: false) != nil
            }
            guard isTaken else { break }
        }
        return nil
    }

    private func part(_ name: String, of item: FetchItem) -> (count: Int64, noted: Date)? {
        let path = FilePath(name)
        return PartName(path.last).usableBytes(
            in: path.directory(in: directory), of: item.url, inSegments: usesSegments, isVerified: item.digest != nil)
    }

    // Some file systems round times down to a multiple of two seconds.
    private func isOfThisRun(_ noted: Date) -> Bool { noted > started.addingTimeInterval(-2) }

    // It is used if the server names the files, because their names are then unknown here.
    // Parts of another concurrent run in the same directory are included.
    func allOfThisRun() -> KeptParts {
        var parts = KeptParts()
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        for name in names.compactMap({ PartName(part: $0) }) {
            let kept = name.usableBytes(in: directory, of: nil, inSegments: usesSegments, isVerified: false)
            guard let kept, isOfThisRun(kept.noted) else { continue }
            parts.add(kept.count)
        }
        return parts
    }
}

extension PartFinder {
    init(_ options: FetchOptions) {
        let isRenamed = options.existing == .rename
        self.init(
            directory: options.directory, knowsNames: !options.takesProposedNames && !isRenamed,
            usesSegments: options.segments > 1, started: Date(),
            numbersNames: !options.takesProposedNames && isRenamed)
    }
}
