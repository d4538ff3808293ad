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
        /// What failed or was cancelled, by its place in the run.
        var failed: [Int: String] = [:]
        /// What was not come to.
        var rest: [String] = []
        /// Lines of lists that ask for nothing that could be sent, with what is wrong before each.
        var broken: [String] = []
        /// Why standard output could not be written; 0 while it could.
        var outputProblem: Int32 = 0
    }

    private let writeOut: WriteOut?
    private let printsHeads: Bool
    /// Whether the heads of all answers stand before the body on standard output.
    private let includesHeads: Bool
    private let keepsRefusals: Bool
    /// Of files, where the body of a refusal goes.
    private let refusalFile: (@Sendable (FetchItem) -> String)?
    /// What `--dump-header` writes to.
    private let heads: StandardOutputStream.State?
    private let failedList: String?
    private let output: StandardOutputStream.State
    private let bodies: StandardOutputStream.State
    private let queue = DispatchQueue(label: "convoy.records")
    private let state = Locked(State())

    /// - Parameters:
    ///   - output: standard output.
    ///   - bodies: what takes bodies that go to no file; standard output, unless `-o` names a device.
    ///   - heads: what `--dump-header` writes to; nil without it.
    init(
        _ options: FetchOptions, _ output: StandardOutputStream.State, bodies: StandardOutputStream.State? = nil,
        heads: StandardOutputStream.State? = nil
    ) {
        (self.bodies, self.heads) = (bodies ?? output, heads)
        includesHeads = options.includesHeads
        keepsRefusals = options.keepsRefusals && options.destination != .nowhere
        let file: @Sendable (FetchItem) -> String = { options.file(of: $0).path }
        refusalFile = options.destination == .files ? file : nil
        writeOut = options.writeOut
        printsHeads = options.destination == .head
        failedList = options.failedList
        self.output = output
    }

    private var isNeeded: Bool { isPrinted || failedList != nil }
    private var isPrinted: Bool { writeOut != nil || printsHeads || includesHeads || keepsRefusals || heads != nil }

    /// Notes what a request is for; before it is sent.
    func opened(_ item: FetchItem) {
        if isNeeded { state.withLock { $0.open[item.index] = item } }
    }

    /// Prints what came of a request.
    ///
    /// - Parameter isUnchanged: whether a failure is none: the server has nothing newer.
    func finished<Value>(
        _ index: Int, _ result: Result<Response<Value>, RequestError>, isUnchanged: Bool = false
    ) {
        guard isNeeded, let item = state.withLock({ $0.open.removeValue(forKey: index) }) else { return }
        if failedList != nil, !isUnchanged, case .failure = result {
            let line = item.listEntry.listLine
            state.withLock { $0.failed[index] = line }
        }
        let isCancelled = if case .failure(let error) = result { error.code == .cancelled } else { false }
        guard isPrinted, !isCancelled else { return }
        let ending = RequestEnding(item, result, isUnchanged: isUnchanged)
        // Whole bodies are in memory only where their heads stand before them.
        let whole = includesHeads || heads != nil ? (try? result.get().value) as? Data : nil
        let body = whole ?? (keepsRefusals || includesHeads ? ending.error?.body : nil)
        queue.sync {
            if let heads { note(heads.write(body: Data(ending.headTexts.utf8))) }
            if printsHeads { note(output.write(shown(ending.headText ?? ""))) }
            if includesHeads { note(output.write(shown(ending.headTexts))) }
            if let body { keep(body, of: item, isRefusal: ending.error != nil) }
            if let writeOut { note(output.write(shown(writeOut.text(of: ending)))) }
        }
    }

    /// No text of a server steers a terminal; what reads a pipe or a file gets what there is.
    private func shown(_ text: String) -> String {
        Terminal.output.isTerminal ? text.replacing("\r\n", with: "\n").visible(keepsNewlines: true) : text
    }

    private func note(_ code: Int32) {
        if code != 0, code != EPIPE, code != EBADF { state.withLock { $0.outputProblem = code } }
    }

    /// Puts a body where it was to go.
    private func keep(_ body: Data, of item: FetchItem, isRefusal: Bool) {
        guard isRefusal, let refusalFile else { return note(bodies.write(body: body)) }
        do { try body.write(to: URL(filePath: refusalFile(item)), options: .atomic) } catch {
            state.withLock { $0.outputProblem = EIO }
        }
    }

    /// Notes something in a list that did not become a request.
    func isDefective(_ defect: FetchItems.Defect) {
        guard failedList != nil else { return }
        let place = defect.line.map { "line \($0) of \(defect.list)" } ?? defect.list
        let text = defect.text.map { "\n" + $0 } ?? ""
        state.withLock { $0.broken.append("# \(place.visible()): \(defect.reason.visible())\(text)") }
    }

    /// Notes what the run has not come to.
    ///
    /// - Returns: what the list of failures cannot have; nil where it has everything, or there is none.
    func isLeft(_ rest: FetchItems.Rest) -> String? {
        guard let failedList else { return nil }
        let remark = rest.list.map { list in
            "\(list.name) was not read from line \(list.line) on; that is not in \(failedList)"
        }
        state.withLock { state in
            state.rest = rest.entries.map(\.listLine)
            if let remark { state.broken.append("# \(remark.visible())") }
        }
        return remark
    }

    /// Writes the list of what failed.
    ///
    /// - Returns: what went wrong.
    func finish() -> [String] {
        let problem = state.withLock { $0.outputProblem }
        let told = problem == 0 ? [] : ["standard output cannot be written: \(String(cString: strerror(problem)))"]
        return told + writeFailedList()
    }

    private func writeFailedList() -> [String] {
        guard let failedList else { return [] }
        let lines = state.withLock { state in
            // What a batch has taken and never sent is told by nothing else.
            for (index, item) in state.open { state.failed[index] = item.listEntry.listLine }
            // By its first line a list is told: broken ones come last.
            return state.failed.sorted { $0.key < $1.key }.map(\.value) + state.rest + state.broken
        }
        return FetchSetup.write(lines.map { $0 + "\n" }.joined(), to: failedList, mode: 0o600)
    }
}

extension FetchItem {
    fileprivate var listEntry: ListEntry {
        ListEntry(
            url: url, name: isNamed ? fileName : nil, digest: digest, headerFields: headerFields, mirrors: mirrors)
    }
}

extension ListEntry {
    /// The line of a list that asks for it, or the lines, as aria2 has them, where one does not do.
    fileprivate var listLine: String {
        var columns = [url.absoluteString]
        guard mirrors.isEmpty else {
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
