// What is written beside the files: header fields, formats of the user's own, a list of what failed.
import Convoy
import Foundation

/// Prints and keeps what `--head`, `--write-out` and `--save-failed` ask for.
///
/// ## Concurrency
/// Use it from any thread. One queue prints, one ending after the other, so that a reader who does not read holds up the
/// run.
final class FetchRecords: Sendable {
    private struct State {
        var open: [Int: FetchItem] = [:]
        var failed: [String] = []
    }

    private let writeOut: WriteOut?
    private let printsHeads: Bool
    private let failedList: String?
    private let output: StandardOutputStream.State
    private let queue = DispatchQueue(label: "convoy.records")
    private let state = Locked(State())

    init(_ options: FetchOptions, _ output: StandardOutputStream.State) {
        writeOut = options.writeOut
        printsHeads = options.destination == .head
        failedList = options.failedList
        self.output = output
    }

    private var isNeeded: Bool { writeOut != nil || printsHeads || failedList != nil }

    /// Notes what a request is for; before it is sent.
    func opened(_ item: FetchItem) {
        if isNeeded { state.withLock { $0.open[item.index] = item } }
    }

    /// Prints what came of a request.
    func finished<Value>(_ index: Int, _ result: Result<Response<Value>, RequestError>) {
        guard isNeeded, let item = state.withLock({ $0.open.removeValue(forKey: index) }) else { return }
        if failedList != nil, case .failure = result { state.withLock { $0.failed.append(item.listLine) } }
        let isCancelled = if case .failure(let error) = result { error.code == .cancelled } else { false }
        guard printsHeads || writeOut != nil, !isCancelled else { return }
        let ending = RequestEnding(item, result)
        var text = printsHeads ? ending.headText ?? "" : ""
        text += writeOut?.text(of: ending) ?? ""
        queue.sync { [text] in output.write(text) }
    }

    /// Writes the list of what failed.
    ///
    /// - Returns: what went wrong.
    func finish() -> [String] {
        guard let failedList else { return [] }
        let lines = state.withLock { $0.failed }
        return FetchSetup.write(lines.map { $0 + "\n" }.joined(), to: failedList, mode: 0o600)
    }
}

extension FetchItem {
    /// The line of a list that asks for it again.
    fileprivate var listLine: String {
        var columns = [url.absoluteString]
        if isNamed || digest != nil { columns.append(isNamed ? fileName : "") }
        if let digest { columns.append("\(digest)") }
        return columns.joined(separator: "\t")
    }
}
