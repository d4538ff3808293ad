import Foundation
import Testing

/// The contents of a report's page, parsed from its text.
struct PageReading {
    let data: [String: Any]
    let rows: [[Any]]

    init(_ page: String) throws {
        let start = try #require(page.range(of: #"id="data">"#)).upperBound
        let end = try #require(page[start...].range(of: "</script>")).lowerBound
        data = try #require(JSONSerialization.jsonObject(with: Data(page[start..<end].utf8)) as? [String: Any])
        rows = try #require(data["rows"] as? [[Any]])
    }

    init(file: String) throws { try self.init(String(contentsOfFile: file, encoding: .utf8)) }

    /// Returns the number of requests with this outcome; nil if the page does not list the outcome.
    func count(_ outcome: String) -> Int? {
        (data["outcomes"] as? [[Any]])?.first { $0.first as? String == outcome }?.last as? Int
    }
    var paths: [Int]? { data["path"] as? [Int] }
    func names() -> [String] { rows.map { ($0[4] as? String ?? "") } }
    /// Returns the contents of the rows without times.
    func facts() -> Set<String> { Set(rows.map { "\($0[1...11])" }) }
}
