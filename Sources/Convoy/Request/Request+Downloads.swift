// Bodies that are written to a file: complete, verified, resumed after an interruption.
import Foundation

extension Request {
    /// The same request with the body written to a file; the output is the file's URL.
    ///
    /// Bytes are written to a part beside the target, `.NAME.convoy-part`. The part is renamed to the target only
    /// when the body is complete, its length and digest are correct, and it is on the disk. The target is therefore
    /// always missing, unchanged or complete.
    ///
    /// Received bytes survive a failure, a cancellation and the end of the process. Repeating the download, also in
    /// another process, resumes it. It requests only the rest (`Range`) of the same version (`If-Range` with a strong
    /// entity tag or a strong modification date, RFC 9110, section 13.1.5). If the server does not support this, or
    /// its file has changed, the download starts over. Without a strong validator, a failure keeps no bytes. If the
    /// process is killed before 1 MiB has arrived, no bytes are kept. The part's record does not contain the URL. A part
    /// whose download is never repeated stays until you remove it.
    ///
    /// Answers without content do not replace the file. With a 304, which the request must accept or
    /// ``ExistingFile/updateIfChanged`` allows, the existing file is the output. A 204, a 205, and a 304 without an
    /// existing file fail with `.badResponse`.
    ///
    /// The request asks for no content coding (`Accept-Encoding: identity`). If the response still has one, it
    /// describes a stored file such as a `.gz`, and the bytes are written without decoding. Digests apply to these
    /// bytes too. ``decodingFile()`` asks for codings and decodes them. Such a download always starts over. So does a
    /// download with its own `Accept-Encoding`, `Range` or condition, and any request other than a GET without a body.
    /// An unknown coding fails with `.badResponse`, unless the request names it in `Accept-Encoding`. URLSession always
    /// decodes, so with it an answer with a coding fails with `.badResponse`.
    ///
    /// - Parameters:
    ///   - file: a file URL. Its directory must exist, because Convoy creates none.
    ///   - digest: the expected digest of the file. A mismatch fails with `.integrityFailed` and keeps no bytes.
    ///     Without this parameter, a digest that the server sends (`Repr-Digest`, RFC 9530, or `Digest`) is checked.
    ///   - existing: what happens when the file exists; it is replaced by default.
    ///   - permissions: the mode of the file, reduced by the process's umask.
    /// - Errors: `.destinationInUse` at once if another download to this file is running in any process;
    ///   `.destinationExists`, `.diskFull`, `.integrityFailed`; `.destinationUnwritable`, also if the directory does
    ///   not exist or if another process has written to the part. It is also the error if syncing the directory
    ///   failed; then the file is already in place.
    public func saved(
        to file: URL, verifying digest: FileDigest? = nil, existing: ExistingFile = .overwrite,
        permissions: UInt16 = 0o666
    ) -> Request<URL> {
        saved(
            DownloadPlan(
                target: .file(file), digest: digest, existing: existing, permissions: mode_t(permissions & 0o7777)))
    }

    /// The same request with the body written to a file in a directory; the output is the file's URL.
    ///
    /// It works like ``saved(to:verifying:existing:permissions:)``. The name is proposed by the server
    /// (`Content-Disposition`, RFC 6266) or is the last part of the final URL. It is made safe: always one visible
    /// name in this directory.
    ///
    /// - Parameters:
    ///   - directory: a file URL. The directory must exist.
    ///   - digest: the expected digest of the file.
    ///   - existing: what happens when a file of that name exists; by default the new file gets a number. The name is
    ///     known only after the response has arrived, so ``ExistingFile/skip`` does not avoid the request.
    ///   - permissions: the mode of the file, reduced by the process's umask.
    public func saved(
        in directory: URL, verifying digest: FileDigest? = nil, existing: ExistingFile = .rename,
        permissions: UInt16 = 0o666
    ) -> Request<URL> {
        saved(
            DownloadPlan(
                target: .directory(directory), digest: digest, existing: existing,
                permissions: mode_t(permissions & 0o7777)))
    }

    /// The same request, but it accepts content codings and decodes the body before writing it to a file.
    ///
    /// No effect for other destinations, whose bodies are always decoded.
    ///
    /// Such a download cannot be resumed, and it is never split into segments.
    public func decodingFile() -> Self { changed { $0.policies.decodesFile = true } }

    func saved(_ plan: DownloadPlan) -> Request<URL> {
        var core = to(.file(plan))
        core.defect = core.defect ?? plan.defect
        if core.method == .head { core.defect = core.defect ?? "the response to a HEAD request has no body to save" }
        return Request<URL>(core: core) { body, _ in
            guard let file = body.file else { throw RequestError(.destinationUnwritable, "no file was written") }
            return file
        }
    }
}
