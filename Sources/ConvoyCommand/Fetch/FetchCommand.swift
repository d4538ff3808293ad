// `convoy fetch`: checks before the first request, then the run.
import Convoy
import Foundation

/// The subcommand.
struct FetchCommand {
    let options: FetchOptions

    /// - Throws: what makes the run impossible; nothing has been sent then.
    func run(_ interruption: Interruption) async throws(UsageError) -> ExitStatus {
        if options.makesDirectories, !options.discards { Self.make(directory: options.directory) }
        if !options.discards { try Self.check(directory: options.directory) }
        let list = try options.input.map { input throws(UsageError) in try LineReader.open(input) }
        let console = Console(allowsLive: !options.isQuiet && !options.isJSON && !options.ownsOutput)
        interruption.watchStops(of: console)
        console.onOutputClosed { interruption.interrupt(.outputClosed) }
        let setup = try FetchSetup(options, console: console) { interruption.interrupt(.outputClosed) }
        let report: any FetchReport =
            options.isJSON
            ? JSONReport(console: console, directory: options.discards ? nil : options.directory)
            : LineReport(
                console: console, isQuiet: options.isQuiet || options.ownsOutput, discards: options.discards,
                maxAttempts: options.retries + 1, usesSegments: options.usesSegments)
        let run = FetchRun(options: options, setup: setup, list: list, report: report, interruption: interruption)
        let status = await run.run()
        return console.status(after: setup.finish(status))
    }

    /// Makes a directory and those before it; whether it is there then is looked at for all.
    private static func make(directory: String) {
        let url = URL(filePath: directory, directoryHint: .isDirectory)
        try? FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    /// Whether files can be made in the directory, as far as that can be known before.
    static func check(directory: String) throws(UsageError) {
        // Where the working directory has been removed, relative names lead nowhere; it can be looked at all the same.
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        if !directory.hasPrefix("/"), getcwd(&path, path.count) == nil {
            let reason = String(cString: strerror(errno))
            throw UsageError("the working directory cannot be used: \(reason)", command: "fetch")
        }
        var status = stat()
        var problem = stat(directory, &status) == 0 ? 0 : errno
        if problem == 0, status.st_mode & S_IFMT != S_IFDIR { problem = ENOTDIR }
        if problem == 0, access(directory, W_OK | X_OK) != 0 { problem = errno }
        guard problem != 0 else { return }
        let reason = String(cString: strerror(problem))
        let advice = problem == ENOENT ? "; make it first: mkdir -p \(directory)" : ""
        throw UsageError("the output directory \(directory) cannot be used: \(reason)\(advice)", command: "fetch")
    }
}

extension FetchRun {
    /// Runs all items, each into its place.
    fileprivate func run() async -> ExitStatus {
        switch options.destination {
        case .files where options.usesSegments: await runInSegments()
        case .files: await run { [options] request, item in options.saving(request, item) }
        case .nowhere, .head: await run { request, _ in request.ignoringBody() }
        // Header fields stand before a body only where it waits for them.
        case .standardOutput where options.includesHeads || options.headFile == "-": await run { request, _ in request }
        case .standardOutput, .device: await run { [setup] request, _ in setup.printing(request) }
        }
    }
}

extension FetchOptions {
    /// The request with its body written to the file of the item.
    fileprivate func saving(_ request: Request<Data>, _ item: FetchItem) -> Request<URL> {
        let existing = existing(for: item)
        makeDirectory(of: item)
        let request = isCompressed ? request.decodingFile() : request
        guard takesProposedNames, !item.isNamed else {
            return request.saved(to: file(of: item), verifying: item.digest, existing: existing)
        }
        return request.saved(in: directoryURL, verifying: item.digest, existing: existing)
    }

    func file(of item: FetchItem) -> URL {
        item.fileName.hasPrefix("/")
            ? URL(filePath: item.fileName, directoryHint: .notDirectory)
            : directoryURL.appending(path: item.fileName, directoryHint: .notDirectory)
    }

    /// Whether a link has the name of an item's file: of names that no `-o` gives, the link is replaced, and that is told.
    func hasLink(_ item: FetchItem) -> Bool {
        var status = stat()
        return lstat(file(of: item).path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
    }

    /// Makes the directories that a list names, or the user where that is asked for.
    ///
    /// One that cannot be made fails the file, which says why.
    func makeDirectory(of item: FetchItem) {
        guard item.fileName.contains("/"), item.isListed || makesDirectories else { return }
        try? FileManager.default.createDirectory(
            at: file(of: item).deletingLastPathComponent(), withIntermediateDirectories: true)
    }

    /// Gives a file the time that the server names for it (`--remote-time`).
    func setTime<Value>(_ result: Result<Response<Value>, RequestError>) {
        guard takesServerTime, case .success(let response) = result, let file = response.value as? URL,
            let text = response.headerFields["Last-Modified"], let date = NewerThan.date(text)
        else { return }
        try? FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file.path)
    }
}
