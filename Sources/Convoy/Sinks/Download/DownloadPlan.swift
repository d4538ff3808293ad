// What a download is to become.
import Foundation

/// What happens when the file that a download is for exists already.
public enum ExistingFile: String, Sendable, CaseIterable {
    /// It is replaced when the new one is complete; until then it stays as it is.
    case overwrite
    /// The request fails with `.destinationExists`, before anything is sent where that can be known.
    case fail
    /// The new one is called `name-1.ext`, or the next number that is free.
    case rename
    /// It stays, and nothing is sent: the file is the output at once.
    ///
    /// With a digest only if it has that digest; a file that has another one is replaced.
    /// Without one, what has the name and is no file, nor a link to one, is `.destinationExists`.
    case skip
    /// It is replaced as with ``overwrite``, unless the server says that it still has the version that the file is (304).
    ///
    /// The file gets the time that the server names (`Last-Modified`). Its entity tag and that time are kept beside the
    /// file, in `.NAME.convoy-version`, and sent with the next download of the same URL (`If-None-Match`,
    /// `If-Modified-Since`). A file that was changed since, or whose version is not known, is fetched and replaced.
    case updateIfChanged
}

/// What a download is to become: a value, kept beside the request.
struct DownloadPlan: Sendable {
    enum Target: Sendable {
        case file(URL)
        /// The name comes from the answer, or from the URL.
        case directory(URL)
    }

    var target: Target
    var digest: FileDigest?
    var existing = ExistingFile.overwrite
    /// The mode of the file, of which the process's mask takes its part.
    var permissions: mode_t = 0o666

    var directory: URL {
        switch target {
        case .file(let file): file.deletingLastPathComponent()
        case .directory(let directory): directory
        }
    }

    /// The path of the directory, and the name in it unless the answer gives one.
    var place: (directory: String, fileName: String?) {
        guard case .file(let file) = target else { return (directory.path, nil) }
        // `URL` makes several of itself for this.
        let path = file.path
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")), path.utf8.count > 1 else {
            return (directory.path, file.lastPathComponent)
        }
        let directory = slash == path.startIndex ? "/" : String(path[..<slash])
        return (directory, String(path[path.utf8.index(after: slash)...]))
    }

    /// Why no file can be made like this, whatever comes.
    var defect: String? {
        let url =
            switch target {
            case .file(let url), .directory(let url): url
            }
        guard url.isFileURL else { return "the destination \(url.redactedString) is not a file URL" }
        return digest?.defect
    }

    /// Fails when it can be seen before anything is sent that the file cannot be made.
    func checkWritable(_ fileName: String, in directory: String) throws(RequestError) {
        guard fileName.utf8.count <= 255 else {
            throw RequestError(.destinationUnwritable, "nothing was sent: the file name is longer than 255 bytes")
        }
        // A rename over a device or a pipe would replace it by a file.
        var status = stat()
        let path = directory + "/" + fileName
        guard lstat(path, &status) == 0 else { return }
        let kind = status.st_mode & S_IFMT
        guard kind == S_IFREG || kind == S_IFLNK else {
            throw RequestError(
                .destinationUnwritable,
                "nothing was sent: \(path) is \(kind == S_IFDIR ? "a directory" : "not a regular file")")
        }
    }

    func exists(_ name: String) -> Bool {
        var status = stat()
        return lstat(directory.path + "/" + name, &status) == 0
    }

    /// Fails where what has the name is no file that could be the output: a directory, or a link that leads to none.
    func checkFile(_ name: String) throws(RequestError) {
        var status = stat()
        guard stat(directory.path + "/" + name, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw RequestError(
                .destinationExists,
                "\(directory.path)/\(name) exists already, and is no file and no link to one; remove it, or choose what happens then"
            )
        }
    }

    func existsAlready(_ name: String) -> RequestError {
        RequestError(
            .destinationExists,
            "the file \(directory.path)/\(name) exists already; remove it, or choose what happens then"
        )
    }

    /// Whether a record may say that the file has this name.
    func mayBeNamed(_ name: String) -> Bool {
        switch target {
        case .file(let file): name == file.lastPathComponent
        case .directory: FileName.isSafe(name)
        }
    }

    /// What the file is to be called, once the answer is known.
    func fileName(_ head: ResponseHead, of request: PreparedRequest) -> String {
        switch target {
        case .file(let file): file.lastPathComponent
        case .directory:
            head.proposedFileName ?? FileName.proposed(by: head.url ?? request.url)
        }
    }
}

extension URL {
    /// What a download of this URL is recognised by: its SHA-256, as there may be a secret in it.
    var downloadKey: String {
        var components = URLComponents(url: self, resolvingAgainstBaseURL: true)
        components?.user = nil
        components?.password = nil
        components?.fragment = nil
        return SHA256.digest(of: Data((components?.string ?? absoluteString).utf8)).hexadecimal
    }
}

extension PreparedRequest {
    /// What a download is recognised by, whatever its method and fields.
    var downloadKey: String { url.downloadKey }

    /// Whether its file is asked for as it is stored, coded or not; not where codings are asked for.
    var keepsCoding: Bool { !decodesFile && !headerFields.contains("Accept-Encoding") }

    /// Whether its answer is a file whose parts can be asked for.
    ///
    /// Not when the request itself asks for ranges or codings: what comes is not the representation from its start.
    var canBeContinued: Bool {
        method == .get && body == nil && !decodesFile
            && ![
                "Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
                "Accept-Encoding",
            ].contains { headerFields.contains($0) }
    }
}
