import Convoy
import Foundation

struct FetchItem: Sendable, Equatable {
    let index: Int
    let url: URL
    /// Relative to the output directory or absolute; unique in the run, unless the server names the file.
    let fileName: String
    var isNamed = false
    var isListed = false
    var isLink = false
    var digest: FileDigest?
    var byteCount: Int64?
    var headerFields = HeaderFields()
    var mirrors: [URL] = []

    func name(of file: URL) -> String { FilePath(fileName).prefix + file.lastPathComponent }
}

// One task calls `next()`; all other members may be used from any thread. No lock is held while the list is read.
final class FetchItems: Sendable {
    struct Defect: Equatable, Sendable {
        let list: String
        /// The number of the line, from 1; nil if the error concerns the complete list, or a file of a Metalink.
        let line: Int?
        let reason: String
        var text: String?

        var place: String { line.map { "line \($0) of \(list)" } ?? list }
        var code: String { line == nil ? "unreadableList" : "invalidRequest" }
    }

    struct Rest: Sendable {
        var entries: [ListEntry] = []
        var list: (name: String, line: Int)?
    }

    private enum Step {
        case give(ListParser.Outcome)
        case read
    }

    private struct State {
        var urls: ArraySlice<URL>
        var digest: FileDigest?
        var outputNames: ArraySlice<String?>
        var names = FileNameRegister()
        var count = 0
        var isStopped = false
        var parser: ListParser
        var ready: [ListParser.Outcome] = []
        var hasFound = false
        var hasEnded = false
        var lineCount = 0

        mutating func nextGiven() -> ListEntry? {
            guard let url = urls.popFirst() else { return nil }
            defer { digest = nil }
            return ListEntry(url: url, name: outputNames.popFirst() ?? nil, digest: digest)
        }

        mutating func note(_ outcomes: [ListParser.Outcome]) {
            ready += outcomes
            hasFound = hasFound || !outcomes.isEmpty
        }

        mutating func nextStep(hasLine: Bool) -> Step? {
            if isStopped { return nil }
            // The next line may add options to the last entry. If it has not arrived, the entry is complete.
            if ready.isEmpty, parser.isOpen, !hasLine { note(parser.close()) }
            if !ready.isEmpty { return .give(ready.removeFirst()) }
            return hasEnded ? nil : .read
        }
    }

    private let state: Locked<State>
    private let list: LineReader?
    private let naming: FileNaming
    private let isFlat: Bool
    private let shard: Shard?
    private let onDefect: @Sendable (Defect) -> Void
    private let onEmpty: @Sendable (String) -> Void

    init(
        _ options: FetchOptions, list: LineReader?, naming: FileNaming,
        onEmpty: @escaping @Sendable (String) -> Void = { _ in }, onDefect: @escaping @Sendable (Defect) -> Void
    ) {
        state = Locked(
            State(
                urls: options.urls[...], digest: options.digest, outputNames: options.outputNames[...],
                parser: ListParser(base: options.base)))
        (self.list, self.naming, isFlat, shard) = (list, naming, options.isFlat, options.shard)
        (self.onEmpty, self.onDefect) = (onEmpty, onDefect)
    }

    /// Nil at the end and after ``stop()``.
    func next() async -> FetchItem? {
        let given = state.withLock { $0.isStopped ? nil : $0.nextGiven() }
        if let given { return makeItem(given, isListed: false) }
        guard let list else { return nil }
        while true {
            let hasLine = list.hasLine
            guard let step = state.withLock({ $0.nextStep(hasLine: hasLine) }) else { return nil }
            switch step {
            case .give(.entry(let entry)): if let item = makeItem(entry) { return item }
            // Only the first shard reports invalid lines, so that each line is reported once.
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
            onDefect(Defect(list: list.name, line: nil, reason: "it could not be read completely: \(reason)"))
            state.withLock { $0.hasFound = true }
        case nil:
            let isEmpty = state.withLock { state in
                // After `stop`, the reader returns nil, although the list may have more lines.
                if state.isStopped { return false }
                state.note(state.parser.finish())
                state.hasEnded = true
                return !state.hasFound
            }
            if isEmpty { onEmpty(list.name) }
        }
    }

    func stop() {
        state.withLock { $0.isStopped = true }
        list?.stop()
    }

    var rest: Rest {
        state.withLock { state in
            var (rest, left) = (Rest(), state)
            while let entry = left.nextGiven() { rest.entries.append(entry) }
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

    private func makeItem(_ entry: ListEntry, isListed: Bool = true) -> FetchItem? {
        let safe = { [isFlat] (name: String) in isFlat ? FileName.safe(name) : FileName.safePath(name) }
        let given = naming == .none ? nil : isListed ? entry.name.map(safe) : entry.name
        let proposed = given ?? FileName.proposed(by: entry.url)
        let isClaimed = naming == .byURL || given != nil
        return state.withLock { state in
            // Entries of other shards also claim their names, so that a file has the same name in every shard.
            let fileName = isClaimed ? state.names.claim(proposed) : proposed
            if isListed, !isOurs(entry) { return nil }
            defer { state.count += 1 }
            return FetchItem(
                index: state.count, url: entry.url, fileName: fileName, isNamed: given != nil, isListed: isListed,
                digest: entry.digest, byteCount: entry.byteCount, headerFields: entry.headerFields,
                mirrors: entry.mirrors)
        }
    }
}

enum FileNaming: Sendable {
    case none, byURL, byServer
}

// A hash of each name saves memory. If two names have the same hash, one of them gets an unnecessary number.
struct FileNameRegister {
    private var nextNumbers: [Int: Int32] = [:]

    mutating func claim(_ name: String) -> String {
        let key = Self.key(name)
        guard var number = nextNumbers[key] else {
            nextNumbers[key] = 1
            return name
        }
        var candidate: String
        repeat {
            candidate = FileName.numberedPath(name, Int(number))
            number += 1
        } while nextNumbers[Self.key(candidate)] != nil
        nextNumbers[key] = number
        nextNumbers[Self.key(candidate)] = 1
        return candidate
    }

    private static func key(_ name: String) -> Int {
        #if canImport(Darwin)
            // On macOS, most file systems treat names that differ only by case as one file.
            return name.lowercased().hashValue
        #else
            return name.hashValue
        #endif
    }
}

extension FileName {
    static func safePath(_ name: String) -> String {
        var parts = name.unicodeScalars.split(separator: "/", omittingEmptySubsequences: false).map { String($0) }
        // find(1) prints `./` before names, so it is removed.
        while parts.count > 1, parts.first == "." { parts.removeFirst() }
        let isSafe = parts.allSatisfy { $0.utf8.elementsEqual(safe($0).utf8) }
        return isSafe ? parts.joined(separator: "/") : safe(name)
    }

    static func numberedPath(_ name: String, _ number: Int) -> String {
        let path = FilePath(name)
        return path.prefix + numbered(path.last, number)
    }
}

struct FilePath {
    let prefix: String
    let last: String

    init(_ name: String) {
        let slash = name.utf8.lastIndex(of: UInt8(ascii: "/"))
        prefix = slash.map { String(name[...$0]) } ?? ""
        last = slash.map { String(name[name.utf8.index(after: $0)...]) } ?? name
    }

    func directory(in directory: String) -> String {
        guard !prefix.isEmpty else { return directory }
        return prefix.hasPrefix("/") ? prefix : directory + "/" + prefix.dropLast()
    }
}
