// `convoy import`: converts requests of other programs to an `.http` file.
import ConvoyHTTPFile
import Foundation

/// Runs `convoy import`.
struct ImportCommand {
    let options: ImportOptions

    /// Reads the document, writes the requests, and reports what was left out.
    ///
    /// - Throws: if the document cannot be read. Nothing was written then.
    func run() throws(UsageError) -> ExitStatus {
        let console = Console(allowsLive: false)
        let data: Data
        do throws(UsageError) { data = try OptionValues.content(of: options.file) } catch {
            throw ImportOptions.error(error.message)
        }
        guard data.count <= Self.mostBytes else {
            throw ImportOptions.error(
                "\(options.file) has \(Figures.bytes(Int64(data.count))); save a part of it, of at most "
                    + Figures.bytes(Int64(Self.mostBytes)))
        }
        var file: ImportedFile
        do throws(ImportFailure) { file = try ImportedFile(reading: Array(data), options.wishes) } catch {
            throw ImportOptions.error("\(options.file): \(error.message.visible())")
        }
        if let output = options.output {
            file.nameAttachments(after: URL(filePath: output).deletingPathExtension().lastPathComponent)
        }
        let (text, notes) = HTTPFileWriter.write(file)
        var status = ExitStatus.success
        if let output = options.output {
            // A file with secrets is for its owner only.
            let mode: mode_t = options.wishes.keepsSecrets ? 0o600 : 0o666
            for problem in FetchSetup.write(text, to: output, mode: mode) + write(file.attachments, beside: output) {
                console.printError("convoy: \(problem)")
                status = .failure
            }
        } else {
            console.printLine(String(text.dropLast()), isContent: true)
        }
        for line in lines(file, notes) { console.printError("convoy: \(line.visible())") }
        return console.status(after: status)
    }

    /// The maximum size of a document, because memory holds several copies of it.
    private static let mostBytes = 1 << 29

    /// The maximum number of notes printed for a request.
    ///
    /// More notes are only counted.
    private static let mostNotes = 3

    /// Writes the bodies, and replaces no file.
    private func write(_ attachments: [ImportedFile.Attachment], beside output: String) -> [String] {
        let directory = URL(filePath: output).deletingLastPathComponent()
        return attachments.compactMap { attachment in
            do {
                try Data(attachment.bytes).write(
                    to: directory.appending(path: attachment.path), options: .withoutOverwriting)
                return nil
            } catch CocoaError.fileWriteFileExists {
                return "\(attachment.path) was not written: a file of this name is there; move it or change -o"
            } catch { return "cannot write \(attachment.path): \(error.localizedDescription)" }
        }
    }

    private func lines(_ file: ImportedFile, _ notes: [String]) -> [String] {
        var lines = file.notes + notes
        for request in file.requests {
            let name = request.request.name?.text ?? ""
            guard request.notes.count > Self.mostNotes else {
                lines += request.notes.map { "\(name): \($0)" }
                continue
            }
            lines.append("\(name): \(request.notes.count) things left out; the comments above it name them")
        }
        if options.output == nil, !file.attachments.isEmpty {
            let names = file.attachments.map(\.path).joined(separator: ", ")
            lines.append("bodies that are no text were not written: \(names); -o FILE writes them beside it")
        }
        let files = file.bodyFiles
        if !files.isEmpty {
            lines.append("bodies come from files: \(files.joined(separator: ", ")); put them beside the .http file")
        }
        let secrets = file.variables.filter(\.isSecret).map(\.name)
        if !secrets.isEmpty {
            lines.append("secrets were left out: \(secrets.joined(separator: ", ")); the file names their variables")
        }
        let unset = file.unsetVariables
        if !unset.isEmpty {
            lines.append("without a value: \(unset.joined(separator: ", ")); give --variable NAME=VALUE to convoy run")
        }
        return lines + ["\(Figures.count(file.requests.count, "request")) imported from \(options.file)"]
    }
}

extension HelpText {
    static let importing = """
        Usage: convoy import [options] FILE

        Reads a HAR, a Postman collection (v2.1 or v2.0) or curl lines, whichever FILE
        is, and writes the requests as an .http file for convoy run. FILE may be -, for
        standard input.

        Examples:
          convoy import session.har --host 'api.*' -o api.http
          convoy import shop.postman_collection.json > shop.http
          convoy import - < curl-lines.txt

        \(ImportOptions.table.helpByGroup)

        Each request has a name and its title. Credentials, cookies, keys and tokens
        become variables, whose values come from the environment of the process, or
        from --variable of convoy run. With --keep-secrets the file has them.

        Where a request of a HAR has a value of an earlier answer, such as a token or a
        cookie, the file refers to that answer: {{login.response.body.$.token}}. Then
        convoy run sends the requests in that order, with new values.

        Scripts of Postman become response handlers as far as one can say the same.
        Everything that is left out is told on standard error, and in a comment above
        its request.

        Exit status:
          0    the requests were written
          1    they could not be written
          2    usage error, or a document that cannot be read; nothing was written
          141  standard output was closed
        """
}
