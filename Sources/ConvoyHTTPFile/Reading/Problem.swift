// Where in a file something is, and what is wrong there.

/// A place in a text: line and column, both counted from 1.
package struct Position: Hashable, Comparable, Sendable {
    package var line: Int
    package var column: Int

    package init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }

    package static func < (left: Position, right: Position) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }

    /// The place so many characters further on the same line.
    func advanced(by count: Int) -> Position { Position(line: line, column: column + count) }
}

/// Something that cannot be done: where it stands, what it is, and what to write instead.
package struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
    /// What follows from it.
    package enum Kind: Hashable, Sendable {
        /// A mistake in the file.
        case mistake
        /// A script, which leaves the rest of its request usable.
        case script
        /// Something that only other programs can do, without which its request cannot be sent.
        case impossible
    }

    package var kind: Kind
    /// The file it is in, where that is another one than the file of requests.
    package var file: String?
    package var position: Position
    package var what: String
    package var advice: String
    /// The variable that has no value.
    var variable: String?

    package init(_ position: Position, _ what: String, _ advice: String, kind: Kind = .mistake, file: String? = nil) {
        (self.position, self.what, self.advice) = (position, what, advice)
        (self.kind, self.file) = (kind, file)
    }

    package var description: String {
        "\(file.map { $0 + ":" } ?? "")\(position.line):\(position.column): \(what); \(advice)"
    }

    /// In the order of the file; those of other files behind.
    package static func inOrder(_ problems: [Problem]) -> [Problem] {
        var seen: Set<Problem> = []
        let sorted = problems.filter { seen.insert($0).inserted }
            .sorted { ($0.file ?? "", $0.position) < ($1.file ?? "", $1.position) }
        return counted(sorted)
    }

    /// A variable without a value is one problem, at the first of its places.
    private static func counted(_ problems: [Problem]) -> [Problem] {
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
