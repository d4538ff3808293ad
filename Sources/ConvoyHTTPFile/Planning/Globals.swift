// Determines which request's handler sets a variable.

/// The variables that handlers set, with the requests that set or clear them.
struct Globals {
    private struct Change {
        var request: Int
        var sets: Bool
    }

    /// The changes of each variable, in file order.
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

    /// The request that sets a variable for another request: the last setter before it, otherwise the first setter
    /// after it.
    ///
    /// Nil if the last change before the request clears the variable.
    ///
    /// - Parameter request: the index of the request that uses the variable; nil outside of requests.
    /// - Complexity: O(log *n*) for *n* changes of the variable, plus the changes by the request itself.
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
