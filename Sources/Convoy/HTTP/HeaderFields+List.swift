// Fields that are lists: RFC 9110, section 5.6.1.

extension HeaderFields {
    /// The members of a list field, trimmed and without empty ones.
    ///
    /// Commas inside quoted strings do not separate members. Only ASCII blanks are trimmed, as libcurl and servers
    /// do.
    package func listMembers(of name: String) -> [String] { values(of: name).flatMap(\.listMembers) }
}

extension String {
    fileprivate var listMembers: [String] {
        var (isQuoted, isEscaped) = (false, false)
        let members = utf8.split { byte in
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = isQuoted
            }
            return byte == UInt8(ascii: ",") && !isQuoted
        }
        return members.map { Substring($0).trimmingBlanks }.filter { !$0.isEmpty }
    }
}
