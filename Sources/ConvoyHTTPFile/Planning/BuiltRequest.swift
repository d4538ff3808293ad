import Convoy
import Foundation

package struct BuiltRequest: Sendable {
    package enum Part: Hashable, Sendable {
        case bytes([UInt8])
        case file(String)
    }

    package let method: String
    package var location: URL
    package var fields = HeaderFields()
    package var body: [Part] = []
    package var digest: (user: String, password: String)?
    package var output: (path: String, replaces: Bool)?
    /// Also true if the request that received the response was led away itself.
    package var isLedAway = false
    package var secrets: Set<String> = []

    init(method: String, url: URL, isLedAway: Bool = false) {
        (self.method, location, self.isLedAway) = (method, url, isLedAway)
    }

    package var url: String { location.absoluteString }

    var defect: String? {
        var request = Request<Data>(method: HTTPMethod(method), url: location)
        for field in fields { request = request.addingHeader(field.name, field.value) }
        if !body.isEmpty { request = request.body(Data(), contentType: nil) }
        return request.defect
    }

    package var bodyBytes: [UInt8]? {
        var bytes: [UInt8] = []
        for part in body {
            guard case .bytes(let more) = part else { return nil }
            bytes += more
        }
        return bytes
    }
}

final class ParsedBodies {
    fileprivate var values: [String: JSONValue] = [:]
}

package struct Exchange: Sendable {
    package var request: BuiltRequest
    package var responseFields: HeaderFields
    package var globals: [String: JSONValue] = [:]
    package var responseBody: @Sendable () throws(Unreadable) -> [UInt8]

    package init(
        request: BuiltRequest, responseFields: HeaderFields,
        responseBody: @escaping @Sendable () throws(Unreadable) -> [UInt8]
    ) {
        (self.request, self.responseFields, self.responseBody) = (request, responseFields, responseBody)
    }

    func value(of reference: Reference, _ parsed: ParsedBodies) throws(Defect) -> String {
        let whose = "\(reference.side == .request ? "the request" : "the response to") \(reference.name)"
        func failure(_ what: String, _ advice: String = "") -> Defect {
            Defect("{{\(reference.source)}}: \(what)", advice)
        }
        func bytes() throws(Defect) -> [UInt8] {
            guard reference.side == .response else {
                if let bytes = request.bodyBytes { return bytes }
                throw failure("the body of the request is a file", "refer to its response")
            }
            do throws(Unreadable) { return try responseBody() } catch { throw failure(error.reason) }
        }
        switch reference.part {
        case .header(let name):
            if let value = (reference.side == .request ? request.fields : responseFields)[name] { return value }
            throw failure("\(whose) has no header field \(name)")
        case .cookie(let name):
            if let value = cookie(name) { return value }
            throw failure("\(whose) sets no cookie \(name)")
        case .global(let name):
            if let value = globals[name] { return value.text }
            throw failure("the response handler of its request has not set it")
        case .body: return String(decoding: try bytes(), as: UTF8.self)
        case .json(let path):
            if parsed.values[whose] == nil {
                let bytes = try bytes()
                do throws(JSONReader.Defect) { parsed.values[whose] = try JSONReader.read(bytes) } catch {
                    throw failure("\(whose) is not JSON: \(error.what), at \(error.line):\(error.column) of it")
                }
            }
            let node = parsed.values[whose].flatMap { path.nodes(in: $0, atMost: 1).first }
            guard let node else { throw failure("\(whose) has no value there") }
            return node.text
        }
    }

    /// If the response sets the cookie several times, the last value counts, as in a cookie jar.
    private func cookie(_ name: String) -> String? {
        for value in responseFields.values(of: "set-cookie").reversed() {
            let pair = value.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if pair.count == 2, pair[0].trimmed == name { return pair[1].trimmed }
        }
        return nil
    }
}
