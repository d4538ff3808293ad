package struct Position: Hashable, Comparable, Sendable {
    package var line: Int
    package var column: Int

    package static let start = Position(line: 1, column: 1)

    package init(line: Int, column: Int) { (self.line, self.column) = (line, column) }

    package static func < (left: Position, right: Position) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }

    func advanced(by count: Int) -> Position { Position(line: line, column: column + count) }
}

/// A mistake whose place the caller or the placeholder knows.
package struct Defect: Error, Hashable, Sendable {
    package var what: String
    package var advice: String
    package var kind: Problem.Kind
    var placeholder: Placeholder?

    init(_ what: String, _ advice: String = "", kind: Problem.Kind = .mistake, placeholder: Placeholder? = nil) {
        (self.what, self.advice, self.kind, self.placeholder) = (what, advice, kind, placeholder)
    }

    package var message: String { advice.isEmpty ? what : "\(what); \(advice)" }
}

package struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Hashable, Sendable {
        case mistake
        case script
        case impossible
    }

    package var kind: Kind
    package var file: String?
    package var position: Position
    package var what: String
    package var advice: String
    var variable: String?

    package init(_ position: Position, _ what: String, _ advice: String, kind: Kind = .mistake, file: String? = nil) {
        (self.position, self.what, self.advice) = (position, what, advice)
        (self.kind, self.file) = (kind, file)
    }

    init(_ position: Position, _ defect: Defect, file: String? = nil) {
        self.init(position, defect.what, defect.advice, kind: defect.kind, file: file)
    }

    package var description: String {
        "\(file.map { $0 + ":" } ?? "")\(position.line):\(position.column): \(what); \(advice)"
    }

    package static func inOrder(_ problems: [Problem]) -> [Problem] {
        var seen: Set<Problem> = []
        let problems = problems.filter { seen.insert($0).inserted }
            .sorted { ($0.file ?? "", $0.position) < ($1.file ?? "", $1.position) }
        let counts = problems.reduce(into: [String: Int]()) { counts, problem in
            if let variable = problem.variable { counts[variable, default: 0] += 1 }
        }
        var told: Set<String> = []
        return problems.compactMap { problem in
            guard let variable = problem.variable, let count = counts[variable], count > 1 else { return problem }
            guard told.insert(variable).inserted else { return nil }
            var problem = problem
            problem.what += ", in \(count) places"
            return problem
        }
    }
}

package struct Unreadable: Error, Sendable {
    package var reason: String
    package init(reason: String) { self.reason = reason }
}

extension String {
    var visibleLine: String {
        let visible = unicodeScalars.prefix(2_000).map { $0.properties.isWhitespace || $0.value < 0x20 ? " " : $0 }
        let line = String(String.UnicodeScalarView(visible)).split(separator: " ").joined(separator: " ")
        return line.count > 300 ? line.prefix(297) + "..." : line
    }
}
