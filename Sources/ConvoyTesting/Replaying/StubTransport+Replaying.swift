import Convoy
import Foundation

extension StubTransport {
    /// Makes a transport that answers as the requests of an HTTP archive were answered (HAR 1.2), for example one that
    /// `HARRecorder` has written.
    ///
    /// ```swift
    /// let archive = URL(fileURLWithPath: "Tests/requests.har")
    /// let stub = try StubTransport(replaying: archive)
    /// let manager = RequestManager(
    ///     configuration: .init(transport: .custom(stub)))
    /// ```
    ///
    /// An entry answers requests with its method and its URL, of which user name, password and fragment do not count. Several
    /// entries for one of them answer one after the other, redirects and refusals before a retry too; the last one again and
    /// again. Query parameters whose values were left out as secrets may have any value; header fields and bodies of requests
    /// are not compared. A request for which there is no entry ends with `.transportFailed`, which names it and what there is.
    ///
    /// An answer has the status, the header fields and the body of its entry. Where the body was left out, for its size or
    /// because it went into a file, a success (200 to 299) is a `.transportFailed` that says so, and any other answer has an
    /// empty one. Fields whose values were left out are missing, and so are those of a coding that has been undone: `Content-Encoding`,
    /// `Content-Length`, `Transfer-Encoding` and the digests of what was sent. A failure that was recorded comes again as a
    /// failure. Everything comes at once: times are not replayed.
    ///
    /// Routes that are added answer before the archive does, and `calls` has what was sent.
    ///
    /// - Parameters:
    ///   - archive: a file.
    ///   - clock: what delays of added routes are measured by.
    ///   - pausesInPlace: whether tasks go on where they were when suspended and resumed.
    /// - Throws: Foundation's error for a file that cannot be read; `DecodingError` for one that is no archive.
    /// - Complexity: O(*n*) for *n* bytes, which are read at once; a request is answered in O(1).
    public convenience init(
        replaying archive: URL, clock: any RequestClock = SystemClock.shared, pausesInPlace: Bool = true
    ) throws {
        try self.init(replaying: Data(contentsOf: archive), clock: clock, pausesInPlace: pausesInPlace)
    }

    /// Makes a transport that answers as an archive in memory says, as for one in a file.
    ///
    /// - Throws: `DecodingError` for what is no archive.
    public convenience init(
        replaying archive: Data, clock: any RequestClock = SystemClock.shared, pausesInPlace: Bool = true
    ) throws {
        let replayer = Replayer(try JSONDecoder().decode(HTTPArchive.self, from: archive).log.entries)
        self.init(clock: clock, pausesInPlace: pausesInPlace)
        route("/**") { replayer.reply(to: $0) }
    }
}

/// The entries of an archive, by what they answer.
private final class Replayer: Sendable {
    private struct Sequence {
        var replies: [StubReply] = []
        var next = 0

        mutating func take() -> StubReply {
            defer { next = min(next + 1, replies.count - 1) }
            return replies[next]
        }
    }

    /// Names of query parameters of which some value was left out.
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

    /// Some of what there is.
    private var known: String {
        let keys = sequences.withLock { $0.keys.sorted() }
        let more = keys.count > 10 ? " and \(keys.count - 10) more" : ""
        return keys.isEmpty ? "it has none" : keys.prefix(10).joined(separator: ", ") + more
    }
}

/// A URL as far as it tells which entry is meant.
private struct ReplayedURL {
    /// What the recorder writes in the place of a secret, in a query.
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

    /// Without user name and password, and without the values of these parameters.
    func leavingOut(_ names: Set<String>) -> String {
        var components = start.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
        if components.count > 2, let at = components[2].lastIndex(of: "@") {
            components[2] = String(components[2][components[2].index(after: at)...])
        }
        // A host alone and the path of its root are one.
        if components.count == 3 { components.append("") }
        let query = items.map { item in
            item.count > 1 && names.contains(String(item[0]))
                ? "\(item[0])=\(Self.placeholder)" : item.joined(separator: "=")
        }
        return components.joined(separator: "/") + (items.isEmpty ? "" : "?" + query.joined(separator: "&"))
    }
}
