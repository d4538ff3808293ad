// The requests of a run, one after the other.
import Convoy
import Foundation

/// One file to fetch.
struct FetchItem: Sendable, Equatable {
    /// Its place in the run, from 0; the batch counts the same.
    let index: Int
    let url: URL
    /// The final name in the output directory; unique in the run.
    let fileName: String
    /// When its request was started; nil before, and when nobody wanted to know.
    var started: ContinuousClock.Instant?
}

/// Gives items from the command line and then from the list, and remembers those that have not finished.
///
/// ## Concurrency
/// One task asks for items; everything else may be used from any thread. No lock is held while reading.
final class FetchItems: Sendable {
    /// Something about the list that is wrong, and did not become an item.
    struct Defect: Equatable, Sendable {
        let list: String
        /// The line, from 1; nil when reading failed.
        let line: Int?
        let reason: String
    }

    private struct State {
        var urls: ArraySlice<URL>
        var names = FileNameRegister()
        var open: [Int: FetchItem] = [:]
        var count = 0
        var isStopped = false
    }

    private let state: Locked<State>
    private let list: LineReader?
    private let needsNames: Bool
    private let onDefect: @Sendable (Defect) -> Void

    init(urls: [URL], list: LineReader?, needsNames: Bool, onDefect: @escaping @Sendable (Defect) -> Void) {
        state = Locked(State(urls: urls[...]))
        self.list = list
        self.needsNames = needsNames
        self.onDefect = onDefect
    }

    /// The next item; nil at the end and after ``stop()``.
    ///
    /// Tells of broken lines on the way.
    func next() async -> FetchItem? {
        let (url, isStopped) = state.withLock { ($0.isStopped ? nil : $0.urls.popFirst(), $0.isStopped) }
        if isStopped { return nil }
        if let url { return open(url, name: nil) }
        guard let list else { return nil }
        while let read = await list.next() {
            switch read {
            case .failed(let reason):
                onDefect(Defect(list: list.name, line: nil, reason: "it cannot be read further: \(reason)"))
            case .line(let line):
                switch line.content.parsed {
                case .blank: continue
                case .broken(let reason): onDefect(Defect(list: list.name, line: line.number, reason: reason))
                case .request(let url, let name): return open(url, name: name)
                }
            }
        }
        return nil
    }

    /// Gives no more items.
    func stop() {
        state.withLock { $0.isStopped = true }
        list?.stop()
    }

    /// Forgets an item that has finished.
    func take(_ index: Int) -> FetchItem? { state.withLock { $0.open.removeValue(forKey: index) } }

    /// The items of some indices, as far as they have not finished.
    func items(_ indices: [Int]) -> [Int: FetchItem] {
        state.withLock { state in
            indices.reduce(into: [:]) { items, index in items[index] = state.open[index] }
        }
    }

    /// Notes that an item's request was started; nil when it has finished already.
    func start(_ index: Int) -> FetchItem? {
        state.withLock { state in
            state.open[index]?.started = .now
            return state.open[index]
        }
    }

    private func open(_ url: URL, name: String?) -> FetchItem {
        let proposed = needsNames ? name.map(FileName.safe) ?? FileName.proposed(by: url) : FileName.proposed(by: url)
        return state.withLock { state in
            let fileName = needsNames ? state.names.claim(proposed) : proposed
            let item = FetchItem(index: state.count, url: url, fileName: fileName)
            state.open[item.index] = item
            state.count += 1
            return item
        }
    }
}

extension NumberedLine.Content {
    fileprivate var parsed: InputLine {
        switch self {
        case .text(let text): InputLine(text)
        case .broken(let reason): .broken(reason: reason)
        }
    }
}

/// The items as requests, for a batch to pull.
struct FetchRequests<Output: Sendable>: AsyncSequence, Sendable {
    let items: FetchItems
    let makeRequest: @Sendable (FetchItem) -> Request<Output>

    func makeAsyncIterator() -> Iterator { Iterator(requests: self) }

    struct Iterator: AsyncIteratorProtocol {
        let requests: FetchRequests

        func next() async -> Request<Output>? { await requests.items.next().map(requests.makeRequest) }
    }
}
