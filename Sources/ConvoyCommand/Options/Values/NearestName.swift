// Suggestions for mistyped words.

extension [String] {
    /// The most similar word to a mistyped one; nil when none is similar enough.
    ///
    /// - Complexity: O(*n* × *m*²) for *n* words of about *m* letters.
    func nearest(to typed: some StringProtocol) -> String? {
        let typed = typed.lowercased()
        guard typed.count > 1, typed.count < 40 else { return nil }
        let starting = filter { $0.hasPrefix(typed) }
        if starting.count == 1 { return starting[0] }
        let limit = typed.count < 4 ? 1 : typed.count < 8 ? 2 : 3
        let measured = map { (word: $0, distance: $0.distance(to: typed)) }
        return measured.filter { $0.distance <= limit }.min { $0.distance < $1.distance }?.word ?? starting.first
    }
}

extension String {
    /// The least number of edits that turn this text into the other.
    ///
    /// An edit inserts, deletes or replaces a letter, or swaps two neighbouring letters.
    fileprivate func distance(to other: String) -> Int {
        let (left, right) = (Array(self), Array(other))
        var (before, last) = ([Int](), Array(0...right.count))
        for (row, letter) in left.enumerated() {
            var line = [row + 1]
            for (column, otherLetter) in right.enumerated() {
                let replaced = last[column] + (letter == otherLetter ? 0 : 1)
                var best = Swift.min(replaced, last[column + 1] + 1, line[column] + 1)
                let isSwap =
                    row > 0 && column > 0 && letter == right[column - 1] && left[row - 1] == otherLetter
                if isSwap { best = Swift.min(best, before[column - 1] + 1) }
                line.append(best)
            }
            (before, last) = (last, line)
        }
        return last.last ?? left.count
    }
}
