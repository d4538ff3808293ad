// The target of a download, and what happens to an existing file.
import Foundation

/// The handling of an existing file.
public enum ExistingFile: String, Sendable, CaseIterable {
    /// Replaces the existing file, which does not change until the new file is complete.
    case overwrite
    /// Fails with `.destinationExists`, before anything is sent if possible.
    case fail
    /// If the name exists, the new file is called `name-1.ext`, or gets the next free number.
    case rename
    /// Keeps the existing file as the output and sends nothing, if the file's name is known.
    ///
    /// If the response decides the name, the new file is downloaded, and then discarded if that name exists already and
    /// no digest is given. With a digest, an existing file with another digest is replaced. Without a digest, the
    /// download fails if the name belongs to anything but a file or a link to a file: with `.destinationUnwritable` if
    /// this is known before the request is sent and the name is not a link, otherwise with `.destinationExists`.
    case skip
    /// Replaces the existing file as with ``overwrite``, unless the server responds that the file is current (304).
    ///
    /// The file's modification time is set from `Last-Modified`. That time and the entity tag are stored beside the
    /// file, in `.NAME.convoy-version`. The next download of the same URL sends both (`If-None-Match`,
    /// `If-Modified-Since`). A file that was changed since, or whose version is unknown, is fetched and replaced.
    case updateIfChanged
}

struct DownloadPlan: Sendable {
    /// The file, or the directory in which the response names the file.
    var url: URL
    var isDirectory = false
    var digest: FileDigest?
    var byteCount: Int64?
    var existing = ExistingFile.overwrite
    /// The mode of the file, before the process's umask is applied.
    var permissions: mode_t = 0o666

    var directory: URL { isDirectory ? url : url.deletingLastPathComponent() }

    var fileName: String? { isDirectory ? nil : url.lastPathComponent }

    var defect: String? {
        guard url.isFileURL else { return "the destination \(url.redactedString) is not a file URL" }
        return digest.flatMap { $0.defect ?? $0.algorithm.function.defect }
    }

    /// Whether a complete download replaces an existing file; `.skip` keeps only a file with the right digest.
    var replaces: Bool {
        switch existing {
        case .overwrite, .updateIfChanged: true
        case .skip: digest != nil
        case .fail, .rename: false
        }
    }

    /// - Returns: the mode of the part. The part of a file that is replaced is no more accessible than that file.
    @discardableResult
    func checkWritable(_ fileName: String, in directory: String) throws(RequestError) -> mode_t {
        func defect(_ text: String) -> RequestError { .init(.destinationUnwritable, "nothing was sent: \(text)") }
        guard fileName.utf8.count <= 255 else { throw defect("the file name is longer than 255 bytes") }
        let path = directory + "/" + fileName
        guard let status = stat(path) else { return permissions }
        switch status.st_mode & S_IFMT {
        case S_IFREG, S_IFLNK: return replaces ? permissions & status.st_mode : permissions
        case S_IFDIR: throw defect("\(path) is a directory")
        // The final rename would replace a device or a pipe by a file.
        default: throw defect("\(path) is not a regular file")
        }
    }

    func exists(_ name: String) -> Bool { stat(directory.path + "/" + name) != nil }

    /// Fails if the name belongs to something that cannot be the output, for example a directory or a dangling link.
    func checkFile(_ name: String) throws(RequestError) {
        guard stat(directory.path + "/" + name, followsLinks: true)?.isFile == true else {
            throw RequestError(
                .destinationExists,
                "\(directory.path)/\(name) already exists and is neither a file nor a link to one; remove it, or choose another option"
            )
        }
    }

    func existsAlready(_ name: String) -> RequestError {
        RequestError(
            .destinationExists,
            "the file \(directory.path)/\(name) exists already; remove it, or choose another option")
    }

    func fileName(_ head: ResponseHead, of request: PreparedRequest) -> String {
        fileName ?? head.proposedFileName ?? FileName.proposed(by: head.url ?? request.url)
    }
}

extension URL {
    /// A hash, because the URL may contain a secret.
    var downloadKey: String {
        var components = URLComponents(url: self, resolvingAgainstBaseURL: true)
        components?.user = nil
        components?.password = nil
        components?.fragment = nil
        return FileDigest.ofBytes(Data((components?.string ?? absoluteString).utf8)).hexadecimal
    }
}

extension PreparedRequest {
    var keepsCoding: Bool { !decodesFile && !headerFields.contains("Accept-Encoding") }

    /// The response to any other request may not be the complete representation.
    var canBeContinued: Bool {
        method == .get && body == nil && !decodesFile
            && ![
                "Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
                "Accept-Encoding",
            ].contains { headerFields.contains($0) }
    }
}

enum DownloadBeginning: Sendable {
    case send(PreparedRequest, continuing: ResumePoint?)
    /// The file already exists, or the segment is complete, so nothing is sent.
    case isThere(URL)
}
