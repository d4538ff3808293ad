import Foundation

enum FileUse: Hashable, Sendable {
    case input
    case output
    case update
}

struct ValuePath: Sendable {
    let find: @Sendable (_ value: String) -> String?

    static let value = ValuePath { $0 }
    static let afterAt = ValuePath { $0.hasPrefix("@") ? String($0.dropFirst()) : nil }
}

struct NamedFile: Sendable {
    let name: String
    let path: String
    let use: FileUse
    var origin: String?

    // A jar is read before it is written, `--newer` reads only a time, and a list may shrink to its failed lines.
    private static let partners: Set<Set<String>> = [
        ["--cookie", "--cookie-jar"], ["--newer", "--output"], ["--input", "--save-failed"],
    ]

    static func check(_ files: [NamedFile]) throws(UsageError) {
        var known: [String: [NamedFile]] = [:]
        for file in files {
            guard let identity = identity(of: file.path) else { continue }
            for other in known[identity, default: []] where conflicts(file, other) {
                let (kept, writer) = file.use == .output || other.use == .input ? (other, file) : (file, other)
                let path = writer.path.visible()
                throw UsageError(
                    "\(kept.shownName) and \(writer.shownName) name the same file, \(path): name another file with \(writer.name)"
                )
            }
            // A million URLs may have the same file name, so only one file of each option is stored.
            if known[identity]?.contains(where: { $0.name == file.name }) != true {
                known[identity, default: []].append(file)
            }
        }
    }

    private var shownName: String { origin ?? name }

    private static func conflicts(_ left: NamedFile, _ right: NamedFile) -> Bool {
        let isWritten = left.use != .input || right.use != .input
        return isWritten && left.name != right.name && !partners.contains([left.name, right.name])
    }

    static func isSame(_ left: String, _ right: String) -> Bool {
        guard let identity = identity(of: left) else { return false }
        return identity == self.identity(of: right)
    }

    /// Nil for standard streams, devices, pipes and directories.
    private static func identity(of path: String) -> String? {
        let isStream = ["-", "/dev/stdin", "/dev/stdout", "/dev/stderr"].contains(path) || path.hasPrefix("/dev/fd/")
        guard !isStream else { return nil }
        var status = stat()
        if stat(path, &status) == 0 {
            return status.st_mode & S_IFMT == S_IFREG ? "\(status.st_dev):\(status.st_ino)" : nil
        }
        let target = FileType.target(ofLink: path)
        let slash = target.lastIndex(of: "/")
        let directory = slash.map { String(target[...$0]) } ?? "."
        let name = slash.map { target[target.index(after: $0)...] } ?? target[...]
        guard !name.isEmpty else { return nil }
        return (FileType.resolved(directory) ?? URL(filePath: directory).standardizedFileURL.path) + "/" + name
    }
}

extension ParsedOptions {
    func checkFiles(
        _ operands: [NamedFile] = [], outputs: @autoclosure () -> [NamedFile]? = nil
    ) throws(UsageError) {
        let others = files.filter { $0.name != "--output" }
        // Most command lines name no other file. The files of up to a million URLs need not be found then.
        guard !operands.isEmpty || !others.isEmpty else { return }
        guard let outputs = outputs() else { return try NamedFile.check(operands + files) }
        try NamedFile.check(operands + outputs + others)
    }
}
