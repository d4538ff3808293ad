import Convoy
import Foundation

final class FetchRecords: Sendable {
    private struct State {
        var failed: [Int: String] = [:]
        var rest: [String] = []
        var broken: [String] = []
        var keepsInput = false
        // A write to a closed output does not count.
        var outputProblem: String?
    }

    private let options: FetchOptions
    private let output: StandardOutputStream.State
    private let errors = StandardOutputStream.State(STDERR_FILENO, name: "standard error") {}
    private let bodies: StandardOutputStream.State
    private let heads: StandardOutputStream.State?
    private let state = Locked(State())

    init(
        _ options: FetchOptions, _ output: StandardOutputStream.State, bodies: StandardOutputStream.State,
        heads: StandardOutputStream.State?
    ) {
        (self.options, self.output, self.bodies, self.heads) = (options, output, bodies, heads)
    }

    var isPrinted: Bool {
        options.writeOut != nil || printsHeads || options.includesHeads || keepsRefusals || heads != nil
    }
    private var printsHeads: Bool { options.destination == .head }
    private var keepsRefusals: Bool { options.keepsRefusals && options.destination != .nowhere }

    func isLost(_ item: FetchItem) {
        guard options.failedList != nil else { return }
        let line = item.listEntry.listLine
        state.withLock { $0.failed[item.index] = line }
    }

    func finished(_ outcome: FetchOutcome, _ received: Data?) {
        if outcome.error != nil { isLost(outcome.item) }
        guard isPrinted, !outcome.isCancelled else { return }
        // A successful body is in memory only if the header fields are written before the body.
        let whole = options.includesHeads || heads != nil ? received : nil
        let body = whole ?? (keepsRefusals || options.includesHeads ? outcome.error?.body : nil)
        if let heads { note(heads.write(body: Data(outcome.headTexts.utf8)), of: options.headFile ?? "") }
        if printsHeads || options.includesHeads { note(output.write(shown(outcome.headTexts))) }
        if let body { keep(body, of: outcome.item, isRefusal: outcome.error != nil) }
        for (text, isForErrors) in options.writeOut?.texts(of: outcome) ?? [] where !text.isEmpty {
            if isForErrors { _ = errors.write(shown(text, on: .errors)) } else { note(output.write(shown(text))) }
        }
    }

    // Pipes and files receive the unchanged text.
    private func shown(_ text: String, on terminal: Terminal = .output) -> String {
        terminal.isTerminal ? text.replacing("\r\n", with: "\n").visible(keepsNewlines: true) : text
    }

    private func note(_ code: Int32, of output: String = "standard output") {
        guard code != 0, code != EPIPE, code != EBADF else { return }
        state.withLock { $0.outputProblem = "\(output) cannot be written: \(String(cString: strerror(code)))" }
    }

    private func keep(_ body: Data, of item: FetchItem, isRefusal: Bool) {
        guard isRefusal, options.destination == .files else { return note(bodies.write(body: body)) }
        let file = options.file(of: item).path
        note(OutputFile.replace(body, at: file), of: file.visible())
    }

    func isDefective(_ defect: FetchItems.Defect) {
        guard options.failedList != nil else { return }
        let text = defect.text.map { "\n" + $0 } ?? ""
        state.withLock { $0.broken.append("# \(defect.place.visible()): \(defect.reason.visible())\(text)") }
    }

    func isLeft(_ rest: FetchItems.Rest) -> String? {
        guard let failedList = options.failedList else { return nil }
        let isInput = rest.list != nil && NamedFile.isSame(options.input ?? "-", failedList)
        let remark = rest.list.map { list in
            "\(list.name) was not read from line \(list.line) on; "
                + (isInput ? "it is left unchanged" : "\(failedList) does not contain those lines")
        }
        state.withLock { state in
            state.keepsInput = isInput
            state.rest = rest.entries.map(\.listLine)
            if let remark { state.broken.append("# \(remark.visible())") }
        }
        return remark
    }

    func finish() -> [String] {
        [state.withLock { $0.outputProblem }, writeFailedList()].compactMap(\.self)
    }

    private func writeFailedList() -> String? {
        guard let failedList = options.failedList, !state.withLock({ $0.keepsInput }) else { return nil }
        let lines = state.withLock { state in
            // The first line decides the format of a list, so invalid lines are last.
            return state.failed.sorted { $0.key < $1.key }.map(\.value) + state.rest + state.broken
        }
        return OutputFile.write(Data(lines.map { $0 + "\n" }.joined().utf8), to: failedList, mode: 0o600)
    }
}

extension FetchItem {
    var listEntry: ListEntry {
        ListEntry(
            url: url, name: isNamed ? fileName : nil, digest: digest, byteCount: byteCount, headerFields: headerFields,
            mirrors: mirrors)
    }
}

extension ListEntry {
    fileprivate var listLine: String {
        var columns = [url.absoluteString]
        guard mirrors.isEmpty, name.map(InputLine.isDigest) != true else {
            columns += mirrors.map(\.absoluteString)
            let options = [name.map { "out=\($0)" }, digest.map { "checksum=\($0)" }].compactMap(\.self)
            return ([columns.joined(separator: "\t")] + (options + fields).map { "  \($0)" }).joined(separator: "\n")
        }
        if name != nil || digest != nil { columns.append(name ?? "") }
        if let digest { columns.append("\(digest)") }
        return ([columns.joined(separator: "\t")] + fields.map { "  \($0)" }).joined(separator: "\n")
    }

    private var fields: [String] { headerFields.map { "header=\($0.name): \($0.value)" } }
}
