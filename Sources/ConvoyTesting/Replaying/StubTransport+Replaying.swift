import Convoy
import Foundation

extension StubTransport {
    /// Makes a transport that replays the responses of an HTTP archive (HAR 1.2), for example a file of `HARRecorder`.
    ///
    /// ```swift
    /// let archive = URL(fileURLWithPath: "Tests/requests.har")
    /// let stub = try StubTransport(replaying: archive)
    /// let manager = RequestManager(
    ///     configuration: .init(transport: .custom(stub)))
    /// ```
    ///
    /// An entry answers requests with the same method and URL, ignoring user name, password and fragment. Several
    /// matching entries answer in order, including redirects and failures before a retry. The last entry is repeated.
    /// Query parameters with redacted values match any value. Header fields and bodies of requests are not compared.
    /// A request without a matching entry fails with `.transportFailed`. The message names the request and up to ten
    /// entries.
    ///
    /// A response has the status, the header fields and the body of its entry. The recorder may omit a body because of
    /// its size or because the body was saved to a file. A success (200 to 299) then fails with `.transportFailed`, and
    /// any other response has an empty body. Redacted fields are missing. Fields of the encoded body are missing too:
    /// `Content-Encoding`, `Content-Length`, `Transfer-Encoding` and digests. A recorded failure is replayed as a
    /// failure. Responses arrive at once, without the recorded delays.
    ///
    /// Added routes take precedence over the archive, and `calls` records the requests.
    ///
    /// - Parameters:
    ///   - archive: the file.
    ///   - clock: the clock for delays of added routes.
    ///   - pausesInPlace: whether a suspended task continues where it stopped, instead of starting over.
    /// - Throws: Foundation's error for a file that cannot be read; `DecodingError` for a file that is not an archive.
    /// - Complexity: O(*n*) for *n* bytes, which are read at once. Answering a request is O(1).
    public convenience init(
        replaying archive: URL, clock: any RequestClock = SystemClock.shared, pausesInPlace: Bool = true
    ) throws {
        try self.init(replaying: Data(contentsOf: archive), clock: clock, pausesInPlace: pausesInPlace)
    }

    /// Makes a transport that replays an archive in memory.
    ///
    /// - Throws: `DecodingError` when the data is not an archive.
    public convenience init(
        replaying archive: Data, clock: any RequestClock = SystemClock.shared, pausesInPlace: Bool = true
    ) throws {
        let replayer = Replayer(try JSONDecoder().decode(HTTPArchive.self, from: archive).log.entries)
        self.init(clock: clock, pausesInPlace: pausesInPlace)
        route("/**") { replayer.reply(to: $0) }
    }
}

private final class Replayer: Sendable {
    private struct Sequence {
        var replies: [StubReply] = []
        var next = 0

        mutating func take() -> StubReply {
            defer { next = min(next + 1, replies.count - 1) }
            return replies[next]
        }
    }

    private let secretNames: Set<String>
    private let sequences: Locked<[String: Sequence]>

    init(_ entries: [HTTPArchive.Entry]) {
        let secretNames = Set(entries.flatMap { ReplayedURL($0.request.url).secretNames })
        var sequences: [String: Sequence] = [:]
        for entry in entries {
            let key = Self.key(entry.request.method, entry.request.url, secretNames)
            sequences[key, default: Sequence()].replies.append(entry.reply)
        }
        self.secretNames = secretNames
        self.sequences = Locked(sequences)
    }

    func reply(to request: PreparedRequest) -> StubReply {
        let key = Self.key(request.method.rawValue, request.url.absoluteString, secretNames)
        return sequences.withLock { $0[key]?.take() }
            ?? .failure(RequestError(.transportFailed, "no entry of the archive is for \(key): \(known)"))
    }

    private static func key(_ method: String, _ url: String, _ secretNames: Set<String>) -> String {
        "\(method) \(ReplayedURL(url).leavingOut(secretNames))"
    }

    private var known: String {
        let keys = sequences.withLock { $0.keys.sorted() }
        let more = keys.count > 10 ? " and \(keys.count - 10) more" : ""
        return keys.isEmpty ? "it has none" : keys.prefix(10).joined(separator: ", ") + more
    }
}

private struct ReplayedURL {
    private static let placeholder = "%3Credacted%3E"

    private let start: Substring
    private let items: [[Substring]]

    init(_ text: String) {
        let whole = text.prefix { $0 != "#" }
        let parts = whole.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        start = parts.first ?? ""
        items =
            parts.dropFirst().first?.split(separator: "&", omittingEmptySubsequences: false)
            .map { $0.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false) } ?? []
    }

    var secretNames: [String] {
        items.compactMap { $0.count > 1 && $0[1] == Self.placeholder ? String($0[0]) : nil }
    }

    func leavingOut(_ names: Set<String>) -> String {
        var components = start.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
        if components.count > 2, let at = components[2].lastIndex(of: "@") {
            components[2] = String(components[2][components[2].index(after: at)...])
        }
        // An empty path and `/` are equal.
        if components.count == 3 { components.append("") }
        let query = items.map { item in
            item.count > 1 && names.contains(String(item[0]))
                ? "\(item[0])=\(Self.placeholder)" : item.joined(separator: "=")
        }
        return components.joined(separator: "/") + (items.isEmpty ? "" : "?" + query.joined(separator: "&"))
    }
}
