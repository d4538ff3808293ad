// Fields that are lists: RFC 9110, section 5.6.1.

extension HeaderFields {
    /// The members of a list field, trimmed and without empty members.
    ///
    /// Commas inside quoted strings do not separate members. Only ASCII blanks are trimmed, as libcurl and servers
    /// do.
    package func listMembers(of name: String) -> [String] {
        var members: [String] = []
        for field in self where field.name.equalsIgnoringCase(name) {
            // Most lists have one member, which needs no parser.
            if field.value.utf8.contains(UInt8(ascii: ",")) {
                members += field.value.listMembers
            } else {
                let member = field.value.trimmedBlanks
                if !member.isEmpty { members.append(String(member)) }
            }
        }
        return members
    }
}

extension String {
    fileprivate var listMembers: [String] { parts(separator: ",") }

    /// The parts of a field value between separators outside quoted strings, trimmed and without empty parts.
    package func parts(separator: Unicode.Scalar) -> [String] {
        let separator = UInt8(ascii: separator)
        var (isQuoted, isEscaped) = (false, false)
        let parts = utf8.split { byte in
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = isQuoted
            }
            return byte == separator && !isQuoted
        }
        return parts.map { Substring($0).trimmingBlanks }.filter { !$0.isEmpty }
    }
}
