import Convoy
import Foundation

struct FetchCommand {
    let options: FetchOptions

    func run(_ interruption: Interruption) async throws(UsageError) -> ExitStatus {
        if !options.discards {
            // If this fails, `check` below reports the reason.
            if options.makesDirectories {
                try? FileManager.default.createDirectory(
                    atPath: options.directory, withIntermediateDirectories: true)
            }
            try Self.check(directory: options.directory)
        }
        let list = try options.input.map { input throws(UsageError) in try LineReader.open(input) }
        let console = Console(
            allowsLive: !options.isQuiet && !options.isJSON && !options.ownsOutput, isJSON: options.isJSON)
        interruption.watch(console)
        let setup = try FetchSetup(options, console: console) { interruption.interrupt(.outputClosed) }
        let report: any FetchReport =
            options.isJSON
            ? JSONReport(console: console, directory: options.discards ? nil : options.directory)
            : LineReport(options, console: console)
        let run = FetchRun(options: options, setup: setup, list: list, report: report, interruption: interruption)
        return console.status(after: setup.finish(await run.run()))
    }

    static func check(directory: String) throws(UsageError) {
        // If the working directory was removed, `stat` still succeeds, but no file can be created by a relative name.
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        if !directory.hasPrefix("/"), getcwd(&path, path.count) == nil {
            let reason = String(cString: strerror(errno))
            throw UsageError("the working directory cannot be used: \(reason)")
        }
        let problem = FileType.problem(with: directory, isDirectory: true)
        guard problem != 0 else { return }
        let reason = String(cString: strerror(problem))
        let advice = problem == ENOENT ? "; create it first: mkdir -p \(directory)" : ""
        throw UsageError("the output directory \(directory) cannot be used: \(reason)\(advice)")
    }
}

extension FetchOptions {
    func saving(_ request: Request<Data>, _ item: FetchItem) -> Request<URL> {
        let existing = existing(for: item)
        makeDirectory(of: item)
        let request = isCompressed ? request.decodingFile() : request
        guard takesProposedNames, !item.isNamed else {
            return request.saved(to: file(of: item), verifying: item.digest, existing: existing)
                .expectingBytes(item.byteCount)
        }
        return request.saved(in: directoryURL, verifying: item.digest, existing: existing)
            .expectingBytes(item.byteCount)
    }

    func existing(for item: FetchItem) -> ExistingFile {
        existing
            ?? (sending.newer != nil ? .updateIfChanged : takesProposedNames && !item.isNamed ? .rename : .overwrite)
    }

    func file(of item: FetchItem) -> URL {
        item.fileName.hasPrefix("/")
            ? URL(filePath: item.fileName, directoryHint: .notDirectory)
            : directoryURL.appending(path: item.fileName, directoryHint: .notDirectory)
    }

    func path(of fileName: String) -> String {
        fileName.hasPrefix("/") || directory == "." ? fileName : directory + "/" + fileName
    }

    // The name of `-o` is never a link, because the parser of the options has replaced a link by its target.
    func hasLink(_ item: FetchItem) -> Bool {
        // The path is a text, because making a URL takes longer than the system's look-up of the file.
        FileType.of(path(of: item.fileName), followsLinks: false) == S_IFLNK
    }

    func makeDirectory(of item: FetchItem) {
        guard item.fileName.utf8.contains(UInt8(ascii: "/")), item.isListed || makesDirectories else { return }
        try? FileManager.default.createDirectory(
            at: file(of: item).deletingLastPathComponent(), withIntermediateDirectories: true)
    }

    func setTime<Value>(_ result: Result<Response<Value>, RequestError>) {
        guard takesServerTime, case .success(let response) = result, let file = response.value as? URL,
            let text = response.headerFields["Last-Modified"], let date = HTTPDate(text, now: Date())?.date
        else { return }
        try? FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file.path)
    }
}
