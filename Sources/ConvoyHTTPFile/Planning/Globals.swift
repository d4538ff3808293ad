// Which request's handler gives a variable its value.

/// The variables that handlers set, with the requests that set and clear them.
struct Globals {
    private struct Change {
        var request: Int
        var sets: Bool
    }

    /// In the order of the file.
    private var changes: [String: [Change]] = [:]

    init(_ file: HTTPFile) {
        for (index, request) in file.requests.enumerated() {
            for change in request.handlers.flatMap(\.changes) {
                for name in change.name.map({ [$0] }) ?? Array(changes.keys) {
                    changes[name, default: []].append(Change(request: index, sets: change.sets))
                }
            }
        }
    }

    /// The request that sets a variable for another one: the last before it, else the first behind it.
    ///
    /// Where the last one before clears it there is none.
    ///
    /// - Parameter request: the place of the one that uses it in the file; nil for what stands outside of requests.
    /// - Complexity: O(log *n*) for *n* changes of the variable, but for those of the request itself.
    func setter(of name: String, for request: Int?) -> Int? {
        guard let changes = changes[name] else { return nil }
        var (low, high) = (0, changes.count)
        while low < high {
            let middle = (low + high) / 2
            if changes[middle].request < request ?? .max { low = middle + 1 } else { high = middle }
        }
        if low > 0 { return changes[low - 1].sets ? changes[low - 1].request : nil }
        return changes.first { $0.request != request && $0.sets }?.request
    }
}
