import ConvoyHTTPFile
import Foundation

struct ImportCommand {
    let options: ImportOptions

    func run() throws(UsageError) -> ExitStatus {
        let console = Console(allowsLive: false)
        let data = try OptionValues.content(of: options.file, limitBytes: Self.mostBytes)
        var file: ImportedFile
        do throws(Defect) { file = try ImportedFile(reading: Array(data), options.wishes) } catch {
            throw UsageError("\(options.file): \(error.message.visible())")
        }
        if let output = options.output {
            file.nameAttachments(after: URL(filePath: output).deletingPathExtension().lastPathComponent)
        }
        let (text, notes) = HTTPFileWriter.write(file)
        var status = ExitStatus.success
        if let output = options.output {
            // Files with secrets are readable only by their owner.
            let mode: mode_t = options.wishes.keepsSecrets ? 0o600 : 0o666
            if !console.write(Data(text.utf8), to: output, mode: mode) { status = .failure }
            for problem in write(file.attachments, beside: output, mode) {
                console.printError("convoy: \(problem)")
                status = .failure
            }
        } else {
            console.printLine(String(text.dropLast()), isContent: true)
        }
        for line in lines(file, notes) { console.printError("convoy: \(line.visible())") }
        return console.status(after: status)
    }

    // It is limited, because memory contains several copies of the document.
    private static let mostBytes = 1 << 29

    private static let mostNotes = 3

    private func write(_ attachments: [ImportedFile.Attachment], beside output: String, _ mode: mode_t) -> [String] {
        let directory = URL(filePath: output).deletingLastPathComponent()
        return attachments.compactMap { attachment in
            let path = attachment.path
            switch OutputFile.create(attachment.bytes, at: directory.appending(path: path).path, mode: mode) {
            case 0: return nil
            case EEXIST: return "\(path) was not written: a file of this name exists; move it or change -o"
            case let code: return "\(path) cannot be written: \(String(cString: strerror(code)))"
            }
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
            lines.append("\(name): \(request.notes.count) parts were omitted; the comments above the request list them")
        }
        if options.output == nil, !file.attachments.isEmpty {
            let names = file.attachments.map(\.path).joined(separator: ", ")
            lines.append("binary bodies were not written: \(names); -o FILE writes them beside it")
        }
        let files = file.bodyFiles
        if !files.isEmpty {
            let names = files.joined(separator: ", ")
            lines.append("bodies come from files, by paths relative to the .http file or absolute ones: \(names)")
        }
        let secrets = file.variables.filter(\.isSecret).map(\.name)
        if !secrets.isEmpty {
            let start = "secret values were left out; the file uses these variables instead:"
            lines += secrets.count == 1 ? ["\(start) \(secrets[0])"] : [start] + secrets.map { "  \($0)" }
        }
        let unset = file.unsetVariables
        if !unset.isEmpty {
            lines.append(
                "variables without a value: \(unset.joined(separator: ", ")); set them with convoy run --variable NAME=VALUE"
            )
        }
        let source = options.file == "-" ? "standard input" : options.file
        return lines + ["\(Figures.count(file.requests.count, "request")) imported from \(source)"]
    }
}
