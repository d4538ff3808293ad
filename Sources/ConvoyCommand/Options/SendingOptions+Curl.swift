// Bodies in the syntax of curl: encoded, in the URL, or from a file with PUT.
import Convoy
import Foundation

extension SendingOptions {
    /// Parses `VALUE`, `=VALUE`, `NAME=VALUE`, `@FILE` or `NAME@FILE`.
    ///
    /// As in curl, a text with an equals sign names no file.
    static func encodedParts(_ text: String) -> (name: Substring, value: Substring, file: String?) {
        guard let mark = text.firstIndex(of: "=") ?? text.firstIndex(of: "@") else { return ("", text[...], nil) }
        let value = text[text.index(after: mark)...]
        return (text[..<mark], value, text[mark] == "@" ? String(value) : nil)
    }

    /// `--data-urlencode`: adds a form field, and encodes its value.
    mutating func addEncoded(_ text: String) throws(UsageError) {
        let (name, text, file) = Self.encodedParts(text)
        let value = try file.map { file throws(UsageError) in try content(of: file) } ?? Data(text.utf8)
        let encoded = value.map { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: String(Unicode.Scalar(byte))
            case 0x20: "+"
            default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }.joined()
        try addData(name.isEmpty ? encoded : "\(name)=\(encoded)", mayNameFile: false)
    }

    /// `-T FILE`: sends the file, or standard input for a dash.
    mutating func setUpload(_ path: String) throws(UsageError) {
        guard body == nil else { throw Self.otherBody }
        if path == "-" {
            body = .bytes(try content(of: path))
            return
        }
        do throws(UsageError) {
            body = .file(URL(filePath: try OptionValues.readableFile(path), directoryHint: .notDirectory))
        } catch {
            let isTime = Figures.plainNumber(path) != nil
            let isGlob = path.contains { "{[".contains($0) }
            throw UsageError(
                error.message + (isTime ? "; wget's -T \(path) is --connect-timeout \(path)" : "")
                    + (isGlob ? "; -T takes one file: run the command for each of them" : ""))
        }
    }

    /// Whether the body is a file.
    var isUpload: Bool { if case .file? = body { true } else { false } }

    /// `-G`: moves the data into the URLs' queries.
    mutating func moveToQuery(_ urls: inout [URL], hasList: Bool) throws(UsageError) {
        guard isQuery else { return }
        guard !hasList else { throw UsageError("--get applies to URLs of the command line: remove -i") }
        guard let body else { return }
        guard case .fields(let data) = body else {
            throw UsageError("--get puts --data into the URL: remove --json-body, --form and --upload-file")
        }
        let query = String(decoding: data, as: UTF8.self)
        self.body = nil
        urls = try urls.map { (url) throws(UsageError) in
            let parts = url.absoluteString.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
            let joint = parts[0].contains("?") ? "&" : "?"
            let fragment = parts.count > 1 ? "#" + parts[1] : ""
            return try InputLine.url(parts[0] + joint + query.replacing(" ", with: "%20") + fragment)
        }
    }

    /// `-T FILE` with the URL of a directory: appends the name of the file.
    mutating func nameUploads(_ urls: inout [URL], hasList: Bool) throws(UsageError) {
        guard case .file(let file)? = body else { return }
        guard !hasList else {
            throw UsageError("--upload-file applies to URLs of the command line: remove -i")
        }
        urls = urls.map {
            $0.path(percentEncoded: true).hasSuffix("/") || $0.path.isEmpty
                ? $0.appending(path: file.lastPathComponent) : $0
        }
    }
}
