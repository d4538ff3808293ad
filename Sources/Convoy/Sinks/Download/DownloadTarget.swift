// The target of a body that can be resumed.
import Foundation

/// A file, or a segment of a file.
///
/// The attempts of an operation write to the target one after another.
protocol DownloadTarget: AnyObject, Sendable {
    /// The executor for disk operations, which may block.
    var executor: DiskExecutor { get }
    /// Whether another attempt can resume the received bytes.
    var keepsPart: Bool { get }

    /// Prepares an attempt, and passes the request to send to `completion`.
    ///
    /// - Parameter asksForWhole: whether to ignore existing bytes.
    func begin(
        _ request: PreparedRequest, asksForWhole: Bool,
        _ completion: @escaping @Sendable (Result<DownloadBeginning, RequestError>) -> Void)

    /// Decides what a response means for this target.
    func judge(
        _ head: ResponseHead, continuing point: ResumePoint?, asksForRange: Bool, isRefused: Bool
    ) -> DownloadAnswer

    /// Prepares for the bytes of a body.
    ///
    /// The serial executor calls this method, `write`, `verify` and `commit`.
    func beginBody(_ answer: DownloadAnswer, _ head: ResponseHead, of request: PreparedRequest) throws(RequestError)
    func write(_ data: Data) throws(RequestError)
    func write(_ source: FileBytes) throws(RequestError)
    /// Whether copying a file or computing a digest must end early.
    var isStopped: Bool { get }
    /// Verifies that the received bytes are the expected ones.
    func verify() throws(RequestError)
    /// Completes the target: moves a new file to its destination.
    ///
    /// A segment, or a file that did not change, is not moved. After a success nothing is left to release. `completion`
    /// is called on any thread.
    func commit(
        _ head: ResponseHead, of request: PreparedRequest,
        _ completion: @escaping @Sendable (Result<URL, RequestError>) -> Void)

    /// Releases the part until the next attempt, so that other downloads may use it, then calls `completion`.
    func release(_ completion: @escaping @Sendable () -> Void)
    /// Makes copying a file and computing a digest end early, from now on.
    ///
    /// Received bytes may still be written.
    func stop()
    /// Releases the target.
    ///
    /// Bytes that can be resumed stay stored, and all others are removed. Then `completion` is called on the serial
    /// executor.
    func close(_ completion: @escaping @Sendable () -> Void)
}

extension DownloadTarget {
    /// By default nothing is released, because a segment shares its file with others.
    func release(_ completion: @escaping @Sendable () -> Void) { completion() }
}

/// How an attempt of a download starts.
enum DownloadBeginning: Sendable {
    case send(PreparedRequest, continuing: ResumePoint?)
    /// The file already exists, or the segment is complete, so nothing is sent.
    case isThere(URL)
}
