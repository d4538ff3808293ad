// Fields that are lists: RFC 9110, section 5.6.1.

extension HeaderFields {
    /// The members of a field that is a list, without the blanks around them and without the empty ones.
    ///
    /// Commas in quoted strings separate nothing. By bytes, as libcurl and servers read them: a letter or a blank that is
    /// one in Unicode only is part of a member.
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
