// Quoted strings in header fields: RFC 9110, section 5.6.4.

extension [UInt8] {
    /// Reads the quoted string whose first quote is at `position`, and moves the position after it.
    ///
    /// Nil when the string has no closing quote.
    func quotedString(at position: inout Int) -> [UInt8]? {
        var text: [UInt8] = []
        var isEscaped = false
        while position + 1 < count {
            position += 1
            let byte = self[position]
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\"") {
                position += 1
                return text
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
                continue
            }
            text.append(byte)
        }
        position = count
        return nil
    }
}
