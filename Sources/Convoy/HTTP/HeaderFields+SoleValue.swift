// A field that may have only one value.

extension HeaderFields {
    /// The one value of a field that may have only one; nil when there is none, or when there are several that differ.
    ///
    /// The same value twice is taken for one, field by field or joined: what loaders join cannot always be told apart.
    func soleValue(of name: String) -> String? {
        var sole: String?
        for value in values(of: name) {
            let value = value.trimmingBlanks.halfIfDoubled
            guard sole == nil || sole == value else { return nil }
            sole = value
        }
        return sole
    }
}

extension String {
    /// `a` for `a, a`, as a loader joins two fields; anything else as it is.
    fileprivate var halfIfDoubled: String {
        guard utf8.count >= 4, utf8.count.isMultiple(of: 2) else { return self }
        let size = utf8.count / 2 - 1
        let half = utf8.prefix(size)
        guard utf8.dropFirst(size).prefix(2).elementsEqual(", ".utf8), utf8.dropFirst(size + 2).elementsEqual(half)
        else { return self }
        return String(half) ?? self
    }
}
