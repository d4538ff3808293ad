// Bodies that are written to a file: complete, verified, resumed after an interruption.
import Foundation

extension Request {
    /// The same request with the body written to a file; the output is the file's URL.
    ///
    /// Bytes are written to a part beside the target, `.NAME.convoy-part`. The part is renamed to the target only
    /// when the body is complete, its length and digest are correct, and its bytes are on the disk. The target is
    /// therefore always missing, unchanged or complete.
    ///
    /// Received bytes survive a failure, a cancellation and the end of the process. Repeating the download, also in
    /// another process, resumes it. The new request asks only for the rest (`Range`) of the same version (`If-Range`
    /// with a strong entity tag or a strong modification date, RFC 9110, section 13.1.5). If the server does not
    /// support ranges, or its file has changed, the download starts over. Without a strong validator, no bytes survive
    /// a failure. If the process is killed, the bytes of a file of at most 1 MiB do not survive either. The part's
    /// record does not contain the URL. A part whose download is never repeated stays until you remove it.
    ///
    /// Responses without content do not replace the file. If the server answers 304, the existing file is the output. A
    /// 304 is accepted if the request accepts it, or with ``ExistingFile/updateIfChanged``. A 204, a 205, and a 304
    /// without an existing file fail with `.badResponse`.
    ///
    /// By default, the request accepts no content coding (`Accept-Encoding: identity`). If the server still names one,
    /// known (`gzip`) or unknown (`aws-chunked`, or `UTF-8` by mistake), the file contains the bytes as they were sent.
    /// Digests apply to these bytes. URLSession decodes bodies itself: a coding that it may decode fails with
    /// `.badResponse`, and on Linux an unknown coding fails too.
    ///
    /// ``decodingFile()``, or the request's own `Accept-Encoding`, accepts codings and decodes them. A body with a
    /// coding that Convoy cannot decode is still stored as it was sent. Such a download always starts over. A download
    /// with its own `Range` or condition also starts over, as does any request other than a GET without a body.
    ///
    /// - Parameters:
    ///   - file: a file URL. Its directory must exist, because Convoy creates none.
    ///   - digest: the expected digest of the file. A mismatch fails with `.integrityFailed` and removes the received
    ///     bytes. Without this parameter, a digest that the server sends (`Repr-Digest`, RFC 9530, or `Digest`) is
    ///     checked.
    ///   - existing: what happens when the file exists; it is replaced by default.
    ///   - permissions: the mode of a new file, before the process's umask is applied. A replaced file keeps its mode,
    ///     without permissions to read and write that this mode lacks.
    /// - Errors: `.destinationInUse` at once if another download to this file is running in any process;
    ///   `.destinationExists`, `.diskFull`, `.integrityFailed`; `.destinationUnwritable`, also if the directory does
    ///   not exist or if another process has written to the part. If syncing the directory fails, the error is also
    ///   `.destinationUnwritable`, and the file already has its final name.
    public func saved(
        to file: URL, verifying digest: FileDigest? = nil, existing: ExistingFile = .overwrite,
        permissions: UInt16 = 0o666
    ) -> Request<URL> {
        saved(DownloadPlan(url: file, digest: digest, existing: existing, permissions: mode_t(permissions & 0o7777)))
    }

    /// The same request with the body written to a file in a directory; the output is the file's URL.
    ///
    /// The download works like ``saved(to:verifying:existing:permissions:)``. The file gets the name that the server
    /// proposes (`Content-Disposition`, RFC 6266). If the server proposes none, the file gets the last part of the
    /// final URL. The library makes the name safe: it is always one visible name in this directory.
    ///
    /// - Parameters:
    ///   - directory: a file URL. The directory must exist.
    ///   - digest: the expected digest of the file.
    ///   - existing: what happens when a file of that name exists; by default the new file gets a number. The name is
    ///     known only after the response has arrived, so ``ExistingFile/skip`` does not avoid the request.
    ///   - permissions: as for ``saved(to:verifying:existing:permissions:)``.
    public func saved(
        in directory: URL, verifying digest: FileDigest? = nil, existing: ExistingFile = .rename,
        permissions: UInt16 = 0o666
    ) -> Request<URL> {
        saved(
            DownloadPlan(
                url: directory, isDirectory: true, digest: digest, existing: existing,
                permissions: mode_t(permissions & 0o7777)))
    }

    /// The same request, but it accepts content codings and decodes the body before writing it to a file.
    ///
    /// The modifier has no effect for other destinations, whose bodies are decoded anyway. A decoded download cannot be
    /// resumed, and is never split into segments.
    public func decodingFile() -> Self { changed { $0.policies.decodesFile = true } }

    // A file of another size fails with `.integrityFailed`; nil means any size. No effect for other destinations.
    package func expectingBytes(_ byteCount: Int64?) -> Self {
        guard case .file(var plan) = core.destination else { return self }
        plan.byteCount = byteCount
        return changed { $0.destination = .file(plan) }
    }

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
