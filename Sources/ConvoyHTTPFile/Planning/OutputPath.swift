package enum OutputPath {
    package static func defect(_ path: String) -> String? {
        if path.isEmpty { return "is not a file name" }
        // Compares bytes, because Swift treats a slash with a combining mark as one character, but the system sees a
        // slash.
        if let first = path.utf8.first, "/~".utf8.contains(first) {
            return "is a path from the root, outside of the output directory"
        }
        let names = path.utf8.split(separator: 0x2F, omittingEmptySubsequences: false).map(Substring.init)
        if names.contains("..") { return "leads out of the output directory" }
        if names.last?.isEmpty == true || names.last == "." { return "is a directory" }
        if path.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) {
            return "contains a control character"
        }
        if names.contains(where: { $0.utf8.count > 255 }) { return "has a name of more than 255 bytes" }
        return nil
    }

    static func defect(ofValue value: String) -> String? {
        if value.utf8.contains(where: { "/\\".utf8.contains($0) }) { return "contains a slash" }
        if value.hasPrefix(".") { return "begins with a dot" }
        return nil
    }
}
