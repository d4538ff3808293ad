// The body into a file: whole, verified, continued where an earlier one stopped.
import Foundation

extension Request {
    /// The same request with the body written to a file; the output is the file's URL.
    ///
    /// Bytes go to a part beside the target, `.NAME.convoy-part`. Only when the body is complete, has its length and its
    /// digest and is on the disk, the part is renamed to the target: the target is absent, or as it was before, or whole.
    ///
    /// What has been received survives a failure, a cancellation and the end of the process: the same download, also in
    /// another process, continues where it stopped. It asks for the rest only (`Range`), and only of the same version
    /// (`If-Range` with a strong entity tag, or a modification date that is one, RFC 9110, section 13.1.5). From a server
    /// that cannot do this, or whose file has changed, it begins anew; where the answer has no such validator, a failure
    /// leaves nothing behind. Of less than 1 MiB a kill keeps nothing. Nothing is kept that shows the URL. A part that is
    /// never asked for again stays until you remove it.
    ///
    /// Answers without content replace nothing. With 304, which comes when the request accepts it or with
    /// ``ExistingFile/updateIfChanged``, the file that is there is the output; 204, 205, and 304 where there is no file,
    /// are `.badResponse`.
    ///
    /// The server is asked for no content coding (`Accept-Encoding: identity`), and one that it puts on the file all the
    /// same is the label of a file that is stored so, a `.gz` for example: the bytes are kept as they are sent, and so are
    /// digests. ``decodingFile()`` asks for codings and undoes them; such a download, one with an `Accept-Encoding`, a
    /// `Range` or a condition of its own, and any but a GET without a body begin anew each time. A coding that is not known
    /// ends it with `.badResponse`, unless the request names it in `Accept-Encoding`. URLSession decodes without being
    /// asked: over it an answer with a coding ends with `.badResponse`.
    ///
    /// - Parameters:
    ///   - file: a file URL; its directory must exist.
    ///   - digest: what the file must hash to; otherwise it ends with `.integrityFailed` and nothing is kept. Without one,
    ///     a digest that the server sends (`Repr-Digest`, RFC 9530, or `Digest`) is held to.
    ///   - existing: what happens when the file exists; it is replaced by default.
    ///   - permissions: the mode of the file, of which the process's mask takes its part.
    /// - Errors: `.destinationInUse` at once when another download to this file is under way, in any process;
    ///   `.destinationExists`, `.diskFull`, `.integrityFailed`; `.destinationUnwritable`, also when another process has
    ///   written to the part, or when the directory could not be brought to the disk, with the file in its place.
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
    /// As ``saved(to:verifying:existing:permissions:)``, and the name is the one that the server proposes
    /// (`Content-Disposition`, RFC 6266) or the last part of the URL that answered, made safe: one visible name in this
    /// directory, whatever the server says.
    ///
    /// - Parameters:
    ///   - directory: a file URL; it must exist.
    ///   - digest: what the file must hash to.
    ///   - existing: what happens when there is a file of that name; the new one gets a number by default. The name is
    ///     known when the answer has come: ``ExistingFile/skip`` saves no transfer here.
    ///   - permissions: the mode of the file, of which the process's mask takes its part.
    public func saved(
        in directory: URL, verifying digest: FileDigest? = nil, existing: ExistingFile = .rename,
        permissions: UInt16 = 0o666
    ) -> Request<URL> {
        saved(
            DownloadPlan(
                target: .directory(directory), digest: digest, existing: existing,
                permissions: mode_t(permissions & 0o7777)))
    }

    /// The same request, asking for a coded body and decoding it on its way into a file; without effect for bodies that go
    /// elsewhere, which are decoded in any case.
    ///
    /// What is kept of such a download cannot be continued, and it comes in one piece where segments are asked for.
    public func decodingFile() -> Self { changed { $0.policies.decodesFile = true } }

    func saved(_ plan: DownloadPlan) -> Request<URL> {
        var core = to(.file(plan))
        core.defect = core.defect ?? plan.defect
        if core.method == .head { core.defect = core.defect ?? "the answer to a HEAD request has no body to be saved" }
        return Request<URL>(core: core) { body, _ in
            guard let file = body.file else { throw RequestError(.destinationUnwritable, "there is no file") }
            return file
        }
    }
}
