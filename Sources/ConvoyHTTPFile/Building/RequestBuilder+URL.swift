// The URL of a request, and a check of the server that the URL names.
import Convoy
import Foundation

extension RequestBuilder {
    /// A part of the URL's text, and the range of its bytes in the URL.
    private struct Placed {
        let filled: Filled
        let piece: Piece
        let bytes: Range<Int>
    }

    /// Builds the URL.
    ///
    /// `isLedAway` has the meaning of ``BuiltRequest/isLedAway``.
    func url() throws(BuildFailure) -> (url: URL, isLedAway: Bool) {
        var (url, placed) = ("", [Placed]())
        let filled = try fill(planned.target)
        for (place, (piece, source)) in zip(filled, planned.target).enumerated() {
            let start = url.utf8.count
            let next = place + 1 < filled.count ? filled[place + 1].text : ""
            url += try text(of: piece, behind: url, before: next)
            placed.append(Placed(filled: piece, piece: source, bytes: start..<url.utf8.count))
        }
        try checkPath(placed, url)
        let spelled = try spelled((url.schemeEnd == nil ? "http://" + url : url).trimmed)
        return (spelled, try checkServer(placed, url, spelled))
    }

    /// Returns the text that a part adds to the URL; throws if its value could change the host.
    private func text(of piece: Filled, behind url: String, before next: String) throws(BuildFailure) -> String {
        guard let value = piece.value, !url.isEmpty else { return piece.text }
        if url.isBehindAuthority {
            // Fragments are not sent, so the text after a # in a value would be lost. Therefore each # is encoded.
            return piece.encoding == .never ? piece.text.hashesEncoded : piece.asPart
        }
        if let host = url.openAuthority, !piece.text.mayFollow(host: host, before: next) {
            throw BuildFailure(
                what: "\(value) would change the host: its value is more than a name",
                advice: "write {{…}} for the whole URL, or / before it")
        }
        return piece.text.hashesEncoded
    }

    /// Parses the text of a URL with the library's own parser.
    ///
    /// Throws if the URL is neither http nor https, or has no host.
    private func spelled(_ url: String) throws(BuildFailure) -> URL {
        let scheme = Substring(url.utf8.prefix { $0 != UInt8(ascii: ":") }).lowercased()
        guard scheme == "http" || scheme == "https" else {
            throw BuildFailure(
                what: "\(planned.shownTarget.shown) is not an http or https URL",
                advice: "write https://example.com/path")
        }
        let authority = url.utf8.dropFirst(scheme.utf8.count + 3).prefix { !"/?#\\".utf8.contains($0) }
        let host = authority.lastIndex(of: UInt8(ascii: "@")).map { authority[$0...].dropFirst() } ?? authority
        guard let first = host.first, first != UInt8(ascii: ":") else {
            throw BuildFailure(
                what: "the URL \(planned.shownTarget.shown) has no host", advice: "write https://example.com/path")
        }
        guard let spelled = url.requestURL else {
            throw BuildFailure(
                what: "\(planned.shownTarget.shown) is not a URL", advice: "write https://example.com/path")
        }
        if case .failure(let defect) = spelled.origin {
            throw BuildFailure(
                what: "the URL \(planned.shownTarget.shown) \(defect.words)", advice: "write https://example.com/path")
        }
        return spelled
    }

    /// Throws if a value turns a segment of the path into `.` or `..`, which would lead to another path.
    private func checkPath(_ placed: [Placed], _ url: String) throws(BuildFailure) {
        guard placed.contains(where: { $0.filled.value != nil }) else { return }
        let bytes = Array(url.utf8)
        let path = URLParts(url).path
        var start = path.lowerBound
        for segment in bytes[path].split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            let range = start..<start + segment.count
            start = range.upperBound + 1
            let text = String(decoding: segment, as: UTF8.self).lowercased().replacing("%2e", with: ".")
            guard text == "." || text == ".." else { continue }
            // A value that contains the start of the path is a path itself, so it may contain `..`.
            let value = placed.first { place in
                place.filled.value != nil && place.filled.encoding != .never
                    && place.bytes.lowerBound > path.lowerBound && place.bytes.overlaps(range)
            }
            guard let value = value?.filled.value else { continue }
            throw BuildFailure(
                what: "the value of \(value) turns a part of the path into \(text), which leads to another path",
                advice: "write {{&…}} if a value may be several parts of a path")
        }
    }

    // MARK: Secrets

    /// Throws if a response's value leads to another server, and the request would send a secret there.
    ///
    /// - Returns: whether a response's value leads to another server than the one that sent the response.
    private func checkServer(_ placed: [Placed], _ written: String, _ url: URL) throws(BuildFailure) -> Bool {
        let hosts = planned.fields.filter { $0.name.lowercased() == "host" }
        let answers = placed.filter { $0.filled.answerer != nil }
        guard !answers.isEmpty || !hosts.isEmpty else { return false }
        let parts = URLParts(written)
        var namers = answers.filter { parts.names($0.bytes) }.map(\.filled)
        guard !namers.isEmpty || !hosts.isEmpty else { return false }
        let url = url.absoluteString
        var origins = [url.originText]
        // The `Host` field selects a virtual server, and HTTP/2 uses it in place of the URL's host.
        for field in hosts {
            let host = try fill(field.value)
            let answers = host.filter { $0.answerer != nil && !$0.text.isEmpty }
            guard !answers.isEmpty else { continue }
            namers += answers
            origins.append((url.prefix { $0 != ":" } + "://" + host.map(\.text).joined().trimmed).originText)
        }
        let origin = origins.last.flatMap { $0 }
        guard let stranger = namers.first(where: { namer in origins.contains { !isOrigin($0, of: namer) } }) else {
            return false
        }
        if let secret = secret(from: placed, parts, besides: Set(namers.compactMap(\.answerer)), origin) {
            throw BuildFailure(
                what:
                    "\(stranger.value ?? "") leads to another server, \((origin ?? url).shown), which would get \(secret)",
                advice: "write the host in the URL, or remove the secret")
        }
        return true
    }

    /// Whether `origin` is that of the server whose response contains the value.
    ///
    /// False if another response selected that server.
    private func isOrigin(_ origin: String?, of answer: Filled) -> Bool {
        guard let origin, let request = answer.answerer.flatMap(exchange)?.request, !request.isLedAway else {
            return false
        }
        return request.url.originText == origin
    }

    /// Describes a secret that the request would send to a server chosen by a response; nil if it sends none.
    private func secret(
        from placed: [Placed], _ parts: URLParts, besides namers: Set<String>, _ origin: String?
    ) -> String? {
        if placed.contains(where: { $0.filled.answerer == nil && $0.bytes.overlaps(parts.user) }) {
            return "the user in the URL"
        }
        for field in planned.fields {
            let isOfOther = field.value.contains { piece in
                guard let name = piece.reference?.name, !namers.contains(name) else { return false }
                return exchange(name)?.request.url.originText != origin
            }
            let isNamed = ["authorization", "cookie", "proxy-authorization"].contains(field.name.lowercased())
            if isNamed || field.name.namesSecret || isOfOther || field.value.contains(where: \.isKnownSecret) {
                return "the field \(field.name)"
            }
        }
        let others = placed.map(\.piece) + planned.bodyPieces
        return others.first(where: \.isKnownSecret).map { "the value of \($0.shown)" }
    }
}

/// The ranges of a URL's parts in its UTF-8 bytes.
struct URLParts {
    /// The range of the user name, the password and the `@`; empty without them.
    let user: Range<Int>
    /// The range of the scheme and `://`; empty if the URL has no scheme.
    let scheme: Range<Int>
    let server: Range<Int>
    let path: Range<Int>

    init(_ url: String) {
        let start = url.schemeEnd ?? url.startIndex
        let scalars = url[start...].unicodeScalars
        let end = scalars.firstIndex(where: \.endsAuthority) ?? url.endIndex
        let host =
            url[start..<end].unicodeScalars.lastIndex(of: "@").map { url.unicodeScalars.index(after: $0) } ?? start
        let pathEnd = url[end...].unicodeScalars.firstIndex { "?#".unicodeScalars.contains($0) } ?? url.endIndex
        func offset(_ index: String.Index) -> Int { url.utf8.distance(from: url.startIndex, to: index) }
        scheme = 0..<offset(start)
        user = offset(start)..<offset(host)
        server = offset(host)..<offset(end)
        path = offset(end)..<offset(pathEnd)
    }

    /// Whether the bytes in a range of the URL determine the scheme, the host or the port.
    func names(_ bytes: Range<Int>) -> Bool { bytes.overlaps(scheme) || bytes.overlaps(server) }
}

extension Piece {
    /// Whether the piece is a secret text, or a column whose name suggests a secret.
    fileprivate var isKnownSecret: Bool {
        switch source {
        case .text: isSecret
        case .column: shown.namesSecret
        case .answer, .system: false
        }
    }
}
