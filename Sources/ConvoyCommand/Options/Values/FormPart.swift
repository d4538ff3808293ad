// One part of a form in the syntax of `-F`: its file, and how a request sends it.
import Convoy
import ConvoyHTTPFile
import Foundation

extension FormPart {
    /// The file of the part; nil if the part is a text.
    var path: String? {
        switch source {
        case .text: nil
        case .file(let path), .content(let path): path
        }
    }

    /// Adds the part to a form.
    ///
    /// A file after `@` is read when the request is sent; a file after `<` is read here.
    func add(to form: inout MultipartForm) throws(UsageError) {
        switch source {
        case .text(let text): form.append(Data(text.utf8), name: name, fileName: fileName, contentType: contentType)
        case .file("-"):
            throw UsageError("sends a file with its name, which standard input lacks; <- sends its content")
        case .file(let path):
            let file = URL(filePath: try OptionValues.readableFile(path), directoryHint: .notDirectory)
            form.append(file: file, name: name, fileName: fileName, contentType: contentType)
        case .content(let path):
            form.append(
                try OptionValues.content(of: path), name: name, fileName: fileName, contentType: contentType)
        }
    }
}
