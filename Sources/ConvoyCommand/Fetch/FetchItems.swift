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
}

/// Gives items from the command line and then from the list.
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
        if let url { return makeItem(url, name: nil) }
        guard let list else { return nil }
        while let read = await list.next() {
            switch read {
            case .failed(let reason):
                onDefect(Defect(list: list.name, line: nil, reason: "it cannot be read further: \(reason)"))
            case .line(let line):
                switch line.content.parsed {
                case .blank: continue
                case .broken(let reason): onDefect(Defect(list: list.name, line: line.number, reason: reason))
                case .request(let url, let name): return makeItem(url, name: name)
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

    private func makeItem(_ url: URL, name: String?) -> FetchItem {
        let given = needsNames ? name.map { FileName.safe($0) } : nil
        let proposed = given ?? FileName.proposed(by: url)
        return state.withLock { state in
            let fileName = needsNames ? state.names.claim(proposed) : proposed
            defer { state.count += 1 }
            return FetchItem(index: state.count, url: url, fileName: fileName)
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
    /// Taken before an item; nil when as many are taken as the batch wants.
    let places: FetchPlaces?
    let makeRequest: @Sendable (FetchItem) -> Request<Output>

    func makeAsyncIterator() -> Iterator { Iterator(requests: self) }

    struct Iterator: AsyncIteratorProtocol {
        let requests: FetchRequests

        func next() async -> Request<Output>? {
            await requests.places?.take()
            return await requests.items.next().map(requests.makeRequest)
        }
    }
}
