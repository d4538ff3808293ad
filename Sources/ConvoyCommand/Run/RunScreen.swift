// The live lines of a run: running requests and the total progress.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Draws the running requests, as `convoy fetch` draws files.
///
/// ## Concurrency
/// Safe to use from any thread. Drawing happens outside of the lock.
final class RunScreen: EventMonitor {
    private struct State {
        var screen: FetchScreen
        /// The started requests, by their index in events.
        var open: [Int: (request: OpenRequest, operation: AnyRequestOperation)] = [:]
        var progress = RunProgress()
        /// Lines that the next drawing prints above the live region.
        var endedLines: [String] = []
        var ticker: Ticker?
    }

    private let plan: RunPlan
    private let console: Console
    private let state: Locked<State>

    /// - Parameter totalCount: the number of requests; nil for the rows of a file, whose number is unknown.
    init(_ plan: RunPlan, _ options: FetchOptions, totalCount: Int?, console: Console) {
        (self.plan, self.console) = (plan, console)
        var state = State(screen: FetchScreen(maxAttempts: options.retries + 1, noun: "requests"))
        state.progress.totalCount = totalCount
        self.state = Locked(state)
    }

    /// Starts drawing.
    func start() {
        let ticker = Ticker(every: .milliseconds(100)) { [weak self] in self?.draw() }
        state.withLock { $0.ticker = ticker }
    }

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        guard let index = operation.tags.first.flatMap({ Int($0) }) else { return }
        state.withLock { state in
            switch event {
            case .started(let attempt):
                var request = state.open[index]?.request ?? OpenRequest(item: item(index), hiding: [])
                _ = request.begin(attempt)
                request.statusCode = nil
                state.open[index] = (request, operation)
            case .response(let head): state.open[index]?.request.statusCode = head.statusCode
            case .attemptEnded(let record): _ = state.open[index]?.request.end(record)
            default: break
            }
        }
    }

    private func item(_ index: Int) -> FetchItem {
        let request = plan.requests[index % max(1, plan.requests.count)]
        let url = URL(filePath: "/", directoryHint: .isDirectory)
        return FetchItem(index: index, url: url, fileName: request.label.visible())
    }

    /// Records the end of a request.
    func finished(_ index: Int, _ outcome: GraphRun.Outcome, hasFailed: Bool) {
        state.withLock { state in
            state.open[index] = nil
            state.progress.finishedCount += 1
            if hasFailed { state.progress.failedCount += 1 }
            guard case .success(let response) = outcome else { return }
            state.progress.savedCount += 1
            state.progress.savedBytes += response.transfer.download.completedBytes
        }
    }

    /// Stores a line for the next drawing.
    ///
    /// Returns false if the caller must print the line.
    func takes(_ line: String) -> Bool {
        guard console.isOutputTerminal else { return false }
        return state.withLock { state in
            guard state.ticker != nil else { return false }
            state.endedLines.append(line)
            return true
        }
    }

    private func draw() {
        let size = console.size
        let (lines, ended) = state.withLock { state in
            // A late event may have added a finished request again.
            state.open = state.open.filter { !$0.value.operation.isFinished }
            let open = state.open.values.sorted { $0.request.opened < $1.request.opened }
            let running = open.compactMap { $0.request.transfer($0.operation.progress) }
            var progress = state.progress
            progress.receivedBytes = running.reduce(progress.savedBytes) { $0 &+ $1.receivedBytes }
            let lines = state.screen.lines(progress, running, size: size, now: .now)
            defer { state.endedLines = [] }
            return (lines, state.endedLines)
        }
        console.draw(lines, above: ended)
    }

    /// Removes the live lines, and prints the stored lines.
    func end() {
        let ticker = state.withLock { state in
            defer { state.ticker = nil }
            return state.ticker
        }
        ticker?.stop()
        let ended = state.withLock { $0.endedLines }
        if !ended.isEmpty { console.draw([], above: ended) }
        console.endLive()
    }
}
