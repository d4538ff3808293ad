// The requests of a run, one after the other.
import Convoy
import Foundation

/// One file to fetch.
struct FetchItem: Sendable, Equatable {
    /// Its place in the run, from 0; the batch counts the same.
    let index: Int
    let url: URL
    /// The name in the output directory, unique in the run; where the server gives the name, the URL's until then.
    let fileName: String
    /// Whether the list gave the name.
    var isNamed = false
    /// What the file must hash to.
    var digest: FileDigest?
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

        /// The word for it, beside those of failed requests.
        var code: String { line == nil ? "unreadableList" : "invalidRequest" }
    }

    private struct State {
        var urls: ArraySlice<URL>
        /// Of the first URL.
        var digest: FileDigest?
        var names = FileNameRegister()
        var count = 0
        var isStopped = false
    }

    private let state: Locked<State>
    private let list: LineReader?
    private let naming: FileNaming
    private let onDefect: @Sendable (Defect) -> Void

    init(
        urls: [URL], digest: FileDigest? = nil, list: LineReader?, naming: FileNaming,
        onDefect: @escaping @Sendable (Defect) -> Void
    ) {
        state = Locked(State(urls: urls[...], digest: digest))
        self.list = list
        self.naming = naming
        self.onDefect = onDefect
    }

    /// The next item; nil at the end and after ``stop()``.
    ///
    /// Tells of broken lines on the way.
    func next() async -> FetchItem? {
        let (url, digest, isStopped) = state.withLock { state in
            defer { state.digest = nil }
            return (state.isStopped ? nil : state.urls.popFirst(), state.digest, state.isStopped)
        }
        if isStopped { return nil }
        if let url { return makeItem(url, name: nil, digest: digest) }
        guard let list else { return nil }
        while let read = await list.next() {
            switch read {
            case .failed(let reason):
                onDefect(Defect(list: list.name, line: nil, reason: "it cannot be read further: \(reason)"))
            case .line(let line):
                switch line.content.parsed {
                case .blank: continue
                case .broken(let reason): onDefect(Defect(list: list.name, line: line.number, reason: reason))
                case .request(let url, let name, let digest): return makeItem(url, name: name, digest: digest)
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

    private func makeItem(_ url: URL, name: String?, digest: FileDigest?) -> FetchItem {
        let given = naming == .none ? nil : name.map { FileName.safe($0) }
        let proposed = given ?? FileName.proposed(by: url)
        let isClaimed = naming == .byURL || given != nil
        return state.withLock { state in
            let fileName = isClaimed ? state.names.claim(proposed) : proposed
            defer { state.count += 1 }
            return FetchItem(
                index: state.count, url: url, fileName: fileName, isNamed: given != nil, digest: digest)
        }
    }
}

/// Where the names of files come from that the list does not name.
enum FileNaming: Sendable {
    /// There are no files.
    case none
    case byURL
    case byServer
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
