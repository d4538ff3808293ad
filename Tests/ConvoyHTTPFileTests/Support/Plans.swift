import Convoy
import Foundation
import Testing

@testable import ConvoyHTTPFile

/// The surroundings of a file in tests: files in memory and a fixed clock.
func surroundings(_ change: (inout Surroundings) -> Void = { _ in }, files: [String: String] = [:]) -> Surroundings {
    var surroundings = Surroundings()
    surroundings.now = { Date(timeIntervalSince1970: 1_700_000_000.25) }
    surroundings.defectOfFile = { files[$0] == nil ? "No such file or directory" : nil }
    surroundings.readFile = { path throws(Unreadable) in
        guard let text = files[path] else { throw Unreadable(reason: "No such file or directory") }
        return Array(text.utf8)
    }
    change(&surroundings)
    return surroundings
}

func plan(
    _ text: String, _ surroundings: Surroundings = surroundings(), _ change: (inout RunPlan.Wishes) -> Void = { _ in }
) -> RunPlan {
    var wishes = RunPlan.Wishes()
    change(&wishes)
    return RunPlan(HTTPFileReader.read(text), surroundings, wishes)
}

/// Builds all requests of a file.
///
/// Throws if the plan has a problem, or if a request uses a value of a response.
func built(_ text: String, _ surroundings: Surroundings = surroundings()) throws -> [BuiltRequest] {
    let plan = plan(text, surroundings)
    if let problem = plan.problems.first { throw problem }
    return try plan.requests.map { try $0.build(surroundings) }
}

/// Builds the last request of a file; `answer` is the response to each other request.
func builtLast(
    _ text: String, _ surroundings: Surroundings = surroundings(), row: [String: String] = [:], answer: Exchange? = nil
) throws -> BuiltRequest {
    let plan = plan(text, surroundings)
    if let problem = plan.problems.first { throw problem }
    return try #require(plan.requests.last).build(surroundings, row: row) { _ in answer }
}

/// A response with a body, to an arbitrary request.
func exchange(
    _ body: String = "", fields: HeaderFields = [:], from host: String = "example.com"
) -> Exchange {
    let url = URL(string: "http://\(host)/") ?? URL(filePath: "/")
    return Exchange(request: BuiltRequest(method: "GET", url: url), responseFields: fields) {
        () throws(Unreadable) in Array(body.utf8)
    }
}

extension BuiltRequest {
    /// The request line, the fields and the body; a file of the body is `<path>`.
    var text: String {
        let lines = ["\(method) \(url)"] + fields.map { "\($0.name): \($0.value)" }
        let parts = body.map { part in
            switch part {
            case .bytes(let bytes): String(decoding: bytes, as: UTF8.self)
            case .file(let path): "<\(path)>"
            }
        }
        return lines.joined(separator: "\n") + (parts.isEmpty ? "" : "\n\n" + parts.joined())
    }

    var bodyText: String { String(decoding: bodyBytes ?? [], as: UTF8.self) }

    func value(of name: String) -> String? { fields[name] }
}
