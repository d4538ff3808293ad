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
    /// Whether it is of a list.
    var isListed = false
    /// Whether its file's name was a link's when it was taken.
    var isLink = false
    /// What the file must hash to.
    var digest: FileDigest?
    /// What the list wants to be sent for it.
    var headerFields = HeaderFields()
    /// Where else the list says that it is.
    var mirrors: [URL] = []
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
        /// The lines as they stood; nil where they are no text.
        var text: String?

        /// The word for it, beside those of failed requests.
        var code: String { line == nil ? "unreadableList" : "invalidRequest" }
    }

    /// What a run that was stopped has not come to.
    struct Rest: Sendable {
        var entries: [ListEntry] = []
        /// The list that was not read to its end, and the first line that is not among the entries.
        var list: (name: String, line: Int)?
    }

    private enum Step {
        case give(ListParser.Outcome)
        case read
    }

    private struct State {
        var urls: ArraySlice<URL>
        /// Of the first URL.
        var digest: FileDigest?
        var outputNames: ArraySlice<String?>
        var isFlat: Bool
        var names = FileNameRegister()
        var count = 0
        var isStopped = false
        var parser: ListParser
        /// What has been read and not given yet.
        var ready: [ListParser.Outcome] = []
        /// Whether there was anything in the list.
        var hasFound = false
        /// Whether the list has been read to its end.
        var hasEnded = false
        var lineCount = 0

        mutating func note(_ outcomes: [ListParser.Outcome]) {
            ready += outcomes
            hasFound = hasFound || !outcomes.isEmpty
        }

        /// What comes next; nil at the end.
        ///
        /// - Parameter hasLine: whether reading waits for no other program.
        mutating func nextStep(hasLine: Bool) -> Step? {
            if isStopped { return nil }
            // Options may follow in the next line; of a pipe it is not waited for.
            if ready.isEmpty, parser.isOpen, !hasLine { note(parser.close()) }
            if !ready.isEmpty { return .give(ready.removeFirst()) }
            return hasEnded ? nil : .read
        }
    }

    private let state: Locked<State>
    private let list: LineReader?
    private let naming: FileNaming
    private let shard: Shard?
    private let onDefect: @Sendable (Defect) -> Void
    private let onEmpty: @Sendable (String) -> Void

    /// - Parameters:
    ///   - outputNames: what the files of the URLs are called, whatever these say.
    ///   - isFlat: whether names of the list lose their directories.
    ///   - base: where the names in the list are.
    ///   - onEmpty: called with the name of a list in which nothing was.
    init(
        urls: [URL], digest: FileDigest? = nil, outputNames: [String?] = [], isFlat: Bool = true, list: LineReader?,
        base: URL? = nil,
        naming: FileNaming, shard: Shard? = nil, onEmpty: @escaping @Sendable (String) -> Void = { _ in },
        onDefect: @escaping @Sendable (Defect) -> Void
    ) {
        state = Locked(
            State(
                urls: urls[...], digest: digest, outputNames: outputNames[...], isFlat: isFlat,
                parser: ListParser(base: base)))
        self.onEmpty = onEmpty
        self.list = list
        self.naming = naming
        self.shard = shard
        self.onDefect = onDefect
    }

    /// The next item; nil at the end and after ``stop()``.
    ///
    /// Tells of broken lines on the way.
    func next() async -> FetchItem? {
        let (url, digest, outputName, isStopped) = state.withLock { state in
            defer { state.digest = nil }
            guard !state.isStopped else { return (URL?.none, FileDigest?.none, String?.none, true) }
            return (state.urls.popFirst(), state.digest, state.outputNames.popFirst().flatMap { $0 }, false)
        }
        if isStopped { return nil }
        if let url { return makeItem(ListEntry(url: url, digest: digest), literal: outputName, isListed: false) }
        guard let list else { return nil }
        while true {
            let hasLine = list.hasLine
            guard let step = state.withLock({ $0.nextStep(hasLine: hasLine) }) else { return nil }
            switch step {
            case .give(.entry(let entry)): if let item = makeItem(entry) { return item }
            // One part tells of it.
            case .give(.broken) where shard != nil && shard?.number != 1: break
            case .give(.broken(let line, let reason, let text)):
                onDefect(Defect(list: list.name, line: line, reason: reason, text: text))
            case .read: await read(list)
            }
        }
    }

    private func read(_ list: LineReader) async {
        switch await list.next() {
        case .line(let line)?:
            state.withLock { state in
                state.note(state.parser.parse(line))
                state.lineCount = line.number
            }
        case .failed(let reason)?:
            onDefect(Defect(list: list.name, line: nil, reason: "it cannot be read further: \(reason)"))
            state.withLock { $0.hasFound = true }
        case nil:
            let isEmpty = state.withLock { state in
                // It is the run that has ended.
                if state.isStopped { return false }
                state.note(state.parser.finish())
                state.hasEnded = true
                return !state.hasFound
            }
            if isEmpty { onEmpty(list.name) }
        }
    }

    /// Gives no more items.
    func stop() {
        state.withLock { $0.isStopped = true }
        list?.stop()
    }

    /// What has not become an item, after ``stop()``.
    var rest: Rest {
        state.withLock { state in
            var rest = Rest(entries: state.urls.map { ListEntry(url: $0) })
            rest.entries += state.ready.compactMap {
                if case .entry(let entry) = $0, isOurs(entry) { entry } else { nil }
            }
            if let list, !state.hasEnded {
                rest.list = (list.name, state.parser.firstUnfinishedLine(before: state.lineCount + 1))
            }
            return rest
        }
    }

    private func isOurs(_ entry: ListEntry) -> Bool { shard?.takes(entry.url.absoluteString) != false }

    /// - Parameter literal: a name of the user's own, taken as it is.
    /// - Returns: nil for a line that belongs to another part.
    private func makeItem(_ entry: ListEntry, literal: String? = nil, isListed: Bool = true) -> FetchItem? {
        let isFlat = state.withLock { $0.isFlat }
        let safe = { (name: String) in isFlat ? FileName.safe(name) : FileName.safePath(name) }
        let given = naming == .none ? nil : literal ?? entry.name.map(safe)
        let proposed = given ?? FileName.proposed(by: entry.url)
        let isClaimed = naming == .byURL || given != nil
        return state.withLock { state in
            // The names of the other parts are taken too: so each file has the same name, whichever part it is of.
            let fileName = isClaimed ? state.names.claim(proposed) : proposed
            if isListed, !isOurs(entry) { return nil }
            defer { state.count += 1 }
            return FetchItem(
                index: state.count, url: entry.url, fileName: fileName, isNamed: given != nil, isListed: isListed,
                digest: entry.digest, headerFields: entry.headerFields, mirrors: entry.mirrors)
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
