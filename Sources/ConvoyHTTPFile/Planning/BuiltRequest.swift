import Convoy
import Foundation

package struct BuiltRequest: Sendable {
    package struct Field: Hashable, Sendable {
        package var name: String
        package var value: String
        package var isSecret: Bool
    }

    package enum Part: Hashable, Sendable {
        case bytes([UInt8])
        case file(String)
    }

    package let method: String
    package var location: URL
    package var fields: [Field] = []
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

package struct BuildFailure: Error, Hashable, Sendable {
    package var what: String
    package var advice: String
    var placeholder: Placeholder?

    init(_ what: String, _ advice: String = "", placeholder: Placeholder? = nil) {
        (self.what, self.advice, self.placeholder) = (what, advice, placeholder)
    }

    package var message: String { advice.isEmpty ? what : "\(what); \(advice)" }
}

final class ParsedBodies {
    fileprivate var values: [String: JSONValue] = [:]
}

package struct Exchange: Sendable {
    package var request: BuiltRequest
    package var responseFields: [(name: String, value: String)]
    package var globals: [String: JSONValue] = [:]
    package var responseBody: @Sendable () throws(Unreadable) -> [UInt8]

    package init(
        request: BuiltRequest, responseFields: [(name: String, value: String)],
        responseBody: @escaping @Sendable () throws(Unreadable) -> [UInt8]
    ) {
        (self.request, self.responseFields, self.responseBody) = (request, responseFields, responseBody)
    }

    func value(of reference: Reference, _ parsed: ParsedBodies) throws(BuildFailure) -> String {
        let side = reference.side == .request ? "the request" : "the response to"
        let whose = "\(side) \(reference.name)"
        switch reference.part {
        case .header(let name):
            let fields =
                reference.side == .request
                ? request.fields.map { ($0.name, $0.value) } : responseFields.map { ($0, $1) }
            let values = fields.filter { $0.0.lowercased() == name.lowercased() }.map(\.1)
            guard !values.isEmpty else {
                throw BuildFailure("{{\(reference.source)}}: \(whose) has no header field \(name)")
            }
            return values.joined(separator: ", ")
        case .cookie(let name):
            guard let value = cookie(name) else {
                throw BuildFailure("{{\(reference.source)}}: \(whose) sets no cookie \(name)")
            }
            return value
        case .global(let name):
            guard let value = globals[name] else {
                throw BuildFailure("{{\(reference.source)}}: the response handler of its request has not set it")
            }
            return value.text
        case .body: return String(decoding: try bytes(of: reference), as: UTF8.self)
        case .json(let path):
            let json: JSONValue
            if let known = parsed.values[whose] { json = known } else { json = try self.json(of: reference, whose) }
            parsed.values[whose] = json
            guard let node = path.nodes(in: json, atMost: 1).first else {
                throw BuildFailure("{{\(reference.source)}}: \(whose) has no value there")
            }
            return node.text
        }
    }

    /// If the response sets the cookie several times, the last value counts, as in a cookie jar.
    private func cookie(_ name: String) -> String? {
        for field in responseFields.reversed() where field.name.lowercased() == "set-cookie" {
            let pair = field.value.prefix { $0 != ";" }.split(
                separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if pair.count == 2, pair[0].trimmed == name { return pair[1].trimmed }
        }
        return nil
    }

    private func json(of reference: Reference, _ whose: String) throws(BuildFailure) -> JSONValue {
        let bytes = try bytes(of: reference)
        do throws(JSONReader.Defect) { return try JSONReader.read(bytes) } catch {
            throw BuildFailure(
                "{{\(reference.source)}}: \(whose) is not JSON: \(error.what), at \(error.line):\(error.column) of it")
        }
    }

    private func bytes(of reference: Reference) throws(BuildFailure) -> [UInt8] {
        guard reference.side == .response else {
            if let bytes = request.bodyBytes { return bytes }
            throw BuildFailure("{{\(reference.source)}}: the body of the request is a file", "refer to its response")
        }
        do throws(Unreadable) { return try responseBody() } catch {
            throw BuildFailure("{{\(reference.source)}}: \(error.reason)")
        }
    }
}
