// The destination of bodies: the meaning of `-o` and `-O`.
import Convoy
import Foundation

extension FetchOptions {
    /// Sets the destination, and the file names or the directory of `-o`.
    ///
    /// - Parameter matches: for each operand its URLs, with the values of their patterns.
    mutating func place(_ matches: [[URLGlob.Match]]) throws(UsageError) {
        let paths = paths
        guard let path = paths.last else {
            if printsByHabit {
                destination = .standardOutput
            } else if sending.isUpload, destination == .files, outputs.isEmpty, !hasDirectory {
                // The name from the URL is often that of the uploaded file. The response must not replace this file,
                // so it is not saved.
                destination = .nowhere
            }
            return
        }
        let isSame = paths.count == outputs.count && paths.allSatisfy { $0 == path }
        if try placeOutside(path, isSame: isSame || urls.count == 1) { return }
        let isOnlyURL = input == nil && urls.count == 1
        if !isOnlyURL, outputs.count > 1 || matches.contains(where: { $0.count > 1 }) {
            return try placeEach(matches)
        }
        try placeOne(path, isOnlyURL: isOnlyURL)
    }

    /// Whether the response is printed without `-o -`, as in curl.
    private var printsByHabit: Bool {
        let namesFiles =
            !outputs.isEmpty || hasDirectory || takesProposedNames || input != nil || existing != nil || usesSegments
            || digest != nil || failedList != nil || takesServerTime
        return destination == .files && !namesFiles && !isJSON && (printsAnswers || sending.sentMethod != .get)
    }

    /// Handles a path of standard output, a device or a pipe, and every path if no body is saved as a file.
    ///
    /// Returns whether the path was handled.
    private mutating func placeOutside(_ path: String, isSame: Bool) throws(UsageError) -> Bool {
        let isStandard = path == "-" || path == "/dev/stdout" || path == "/dev/fd/1"
        guard destination == .files else {
            if isStandard { return true }
            if Self.isDevice(path) {
                if destination == .head { destination = .nowhere }
            } else if destination == .head, urls.count == 1, input == nil, !Self.isDirectory(path) {
                (headFile, destination) = (headFile ?? path, .nowhere)
            } else {
                setDirectory(path)
            }
            return true
        }
        guard isStandard || Self.isDevice(path) else { return false }
        guard isSame, input == nil || path == "/dev/null" else {
            throw UsageError(
                "-o \(path) applies to all URLs of a command line; use it without other -o, and not with a list")
        }
        destination = isStandard ? .standardOutput : path == "/dev/null" ? .nowhere : .device(path)
        return true
    }

    /// Applies a single `-o`.
    ///
    /// For one URL it names the file, or an existing directory. For several URLs it names their directory.
    private mutating func placeOne(_ output: String, isOnlyURL: Bool) throws(UsageError) {
        let path = output.hasPrefix("/") || directory == "." ? output : directory + "/" + output
        guard isOnlyURL else { return try setDirectory(ofSeveral: path) }
        guard !Self.isDirectory(path), !path.hasSuffix("/") else { return setDirectory(path) }
        let target = FileType.target(ofLink: path)
        let slash = target.lastIndex(of: "/")
        let name = slash.map { String(target[target.index(after: $0)...]) } ?? target
        try Self.check(name)
        outputNames = [name]
        if let slash { setDirectory(slash == target.startIndex ? "/" : String(target[..<slash])) }
    }

    /// Sets the directory of several files, which a single `-o` names.
    private mutating func setDirectory(ofSeveral path: String) throws(UsageError) {
        guard makesDirectories || path.hasSuffix("/") || FileType.of(path) != nil else {
            let advice = input == nil ? "write -o once for each URL, or " : ""
            throw UsageError(
                "-o \(path) is not a directory, and is one name for several URLs; \(advice)make the directory: "
                    + "mkdir -p \(path)")
        }
        setDirectory(path)
    }

    /// Sets a file for each URL.
    ///
    /// The first `-o` or `-O` is for the first operand, and so on. A single `-o` for several operands, or
    /// one that names a directory, sets the directory instead.
    private mutating func placeEach(_ matches: [[URLGlob.Match]]) throws(UsageError) {
        guard input == nil else {
            throw UsageError(
                "several -o name the URLs of a command line; write the names of a list into its second column")
        }
        if case .file(let path)? = outputs.first, outputs.count == 1, matches.count > 1 || Self.isDirectory(path) {
            return try setDirectory(ofSeveral: path)
        }
        for (index, operand) in matches.enumerated() {
            guard index < outputs.count, case .file(let template) = outputs[index] else {
                outputNames += operand.map { _ in nil }
                continue
            }
            let names = operand.map { $0.name(template) }
            guard Set(names.prefix(2)).count == min(2, names.count) else {
                throw UsageError(
                    "-o \(template) is one file, but the URL pattern matches \(operand.count): write #1 where the names "
                        + "differ")
            }
            for name in names {
                try Self.check(name.split(separator: "/", omittingEmptySubsequences: false).last.map(String.init) ?? "")
                let place = name.hasPrefix("/") || directory == "." ? "" : directory + "/"
                let target = FileType.target(ofLink: place + name)
                outputNames.append(target.hasPrefix(place) ? String(target.dropFirst(place.count)) : target)
            }
        }
    }

    /// The files of the URLs of a command line, as far as their names are known; nil if no files are written.
    ///
    /// A file that is named by its URL and does not replace an existing file counts as an input: no other output may
    /// replace it.
    var outputFiles: [NamedFile]? {
        guard destination == .files else { return nil }
        let replaces = ![.fail, .rename, .skip].contains(existing)
        return urls.enumerated().compactMap { index, url in
            let given = outputNames.indices.contains(index) ? outputNames[index] : nil
            guard given != nil || !takesProposedNames else { return nil }
            let name = given ?? FileName.proposed(by: url)
            return NamedFile(
                name: "--output", path: name.hasPrefix("/") ? name : directory + "/" + name,
                use: given != nil || replaces ? .output : .input,
                origin: given == nil ? "the file of URL \(index + 1)" : nil)
        }
    }

    private static func check(_ name: String) throws(UsageError) {
        guard !name.isEmpty, ![".", ".."].contains(name), name.utf8.count <= 255 else {
            throw UsageError("-o needs a file name of 1 to 255 bytes, not \(name.prefix(20).debugDescription)")
        }
    }

    static func isDirectory(_ path: String) -> Bool { FileType.of(path) == S_IFDIR }

    /// Whether the path is a device or a pipe.
    private static func isDevice(_ path: String) -> Bool {
        // These paths name open descriptors of the process, so they count as devices.
        if path == "/dev/stderr" || path.hasPrefix("/dev/fd/") { return true }
        return FileType.of(path).map([S_IFCHR, S_IFBLK, S_IFIFO].contains) ?? false
    }
}
