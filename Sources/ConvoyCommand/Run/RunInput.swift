// The input of a run: the file, environments, .env.
import ConvoyHTTPFile
import Foundation

/// The `.http` file, and the values from environment files near it.
struct RunInput {
    let file: HTTPFile
    let surroundings: Surroundings
    /// The base of relative paths in the `.http` file.
    let directory: URL

    private static let limitBytes = 64 << 20

    init(_ options: RunOptions) throws(UsageError) {
        let bytes = try OptionValues.content(of: options.file, limitBytes: Self.limitBytes)
        guard let text = String(data: bytes, encoding: .utf8) else {
            throw UsageError("\(options.file) is not UTF-8")
        }
        file = HTTPFileReader.read(text)
        directory =
            FileType.of(options.file) != S_IFREG
            ? URL(filePath: ".", directoryHint: .isDirectory).absoluteURL
            : URL(filePath: options.file, directoryHint: .notDirectory).absoluteURL.deletingLastPathComponent()
        surroundings = Self.surroundings(of: options, directory)
    }

    private static func surroundings(of options: RunOptions, _ directory: URL) -> Surroundings {
        var surroundings = Surroundings()
        surroundings.given = options.variables
        surroundings.environmentName = options.environment
        surroundings.processEnvironment = ProcessInfo.processInfo.environment
        surroundings.skipsScripts = options.skipsScripts
        let files = ["http-client.env.json", "http-client.private.env.json"]
        for (name, file) in nearest(files, from: directory) {
            if let data = try? Data(contentsOf: file) {
                surroundings.environments.add(Array(data), file: file.path, isSecret: name == files[1])
            }
        }
        // Without `--env`, an environment is used if the files define only one.
        let names = surroundings.environments.names
        if options.environment == nil, names.count == 1 { surroundings.environmentName = names[0] }
        let dotNames = (surroundings.environmentName.map { [".env.\($0)"] } ?? []) + [".env"]
        if let (_, file) = nearest(dotNames, from: directory).first, let data = try? Data(contentsOf: file) {
            surroundings.dotEnvironment = DotEnvironment.read(String(decoding: data, as: UTF8.self))
        }
        surroundings.readFile = { path throws(Unreadable) in
            if let reason = defect(of: path, in: directory) { throw Unreadable(reason: reason) }
            return try bytes(
                of: url(of: path, in: directory), unreadable: "it could not be read",
                tooLarge: "it is larger than 64 MiB, which is possible only without variables: < \(path)")
        }
        surroundings.defectOfFile = { defect(of: $0, in: directory) }
        return surroundings
    }

    /// The bytes of a file of at most 64 MiB; throws the reason `unreadable` or `tooLarge`.
    static func bytes(of file: URL, unreadable: String, tooLarge: String) throws(Unreadable) -> [UInt8] {
        guard let data = try? Data(contentsOf: file, options: .mappedIfSafe) else {
            throw Unreadable(reason: unreadable)
        }
        guard data.count <= limitBytes else { throw Unreadable(reason: tooLarge) }
        return Array(data)
    }

    /// The files with the given names in the nearest directory that has one, from `directory` upwards.
    ///
    /// Only directories of the same Git repository are searched, because files above may belong to other users. Without
    /// a repository, only `directory` is searched.
    private static func nearest(_ names: [String], from directory: URL) -> [(name: String, file: URL)] {
        var directories = [directory.standardizedFileURL]
        while let last = directories.last, access(last.appending(path: ".git").path, F_OK) != 0 {
            let above = last.deletingLastPathComponent().standardizedFileURL
            guard above.path != last.path, !above.path.hasSuffix("..") else {
                directories = [directory]
                break
            }
            directories.append(above)
        }
        for directory in directories {
            let files = names.map { ($0, directory.appending(path: $0, directoryHint: .notDirectory)) }
                .filter { access($0.1.path, R_OK) == 0 }
            if !files.isEmpty { return files }
        }
        return []
    }

    /// The file that a path in the `.http` file means.
    static func url(of path: String, in directory: URL) -> URL {
        let home = ProcessInfo.processInfo.environment["HOME"] ?? "/"
        let full = path.hasPrefix("~/") ? home + path.dropFirst() : path
        return URL(filePath: full, directoryHint: .notDirectory, relativeTo: directory).absoluteURL
    }

    private static func defect(of path: String, in directory: URL) -> String? {
        let file = url(of: path, in: directory).path
        do throws(UsageError) { _ = try OptionValues.readableFile(file) } catch {
            return error.message.split(separator: ": ").last.map(String.init) ?? error.message
        }
        // Reading a pipe could block, and a device may have no end.
        return FileType.of(file) == S_IFREG ? nil : "it is not a file"
    }
}
