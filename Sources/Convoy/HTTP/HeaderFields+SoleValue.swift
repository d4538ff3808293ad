// A field that may have only one value.

extension HeaderFields {
    /// The value of a field that may have only one value.
    ///
    /// Nil when the field is missing or has several different values.
    ///
    /// Equal values count as one, in separate lines or joined. URLSession joins lines, and joined values cannot always
    /// be separated again.
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
    /// Turns `a, a` into `a`, because URLSession joins two equal fields to `a, a`.
    ///
    /// Other text is unchanged.
    fileprivate var halfIfDoubled: String {
        guard utf8.count >= 4, utf8.count.isMultiple(of: 2) else { return self }
        let size = utf8.count / 2 - 1
        let half = utf8.prefix(size)
        guard utf8.dropFirst(size).prefix(2).elementsEqual(", ".utf8), utf8.dropFirst(size + 2).elementsEqual(half)
        else { return self }
        return String(half) ?? self
    }
}
