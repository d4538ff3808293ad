// What a body that can be continued is written to.
import Foundation

/// A file, or a segment of one, that the attempts of an operation fill one after the other.
protocol DownloadTarget: AnyObject, Sendable {
    /// Where the disk is used; it may block there.
    var lane: DiskLane { get }
    /// Whether what has come can be continued by another attempt.
    var keepsPart: Bool { get }

    /// Makes ready for an attempt and says what is to be sent.
    ///
    /// - Parameter asksForWhole: whether what is there is not to be continued.
    func begin(
        _ request: PreparedRequest, asksForWhole: Bool,
        _ completion: @escaping @Sendable (Result<DownloadBeginning, RequestError>) -> Void)

    /// What an answer is for this target.
    func judge(
        _ head: ResponseHead, continuing point: ResumePoint?, asksForRange: Bool, isRefused: Bool
    ) -> DownloadAnswer

    /// Prepares for the bytes of a body; on the lane, as the next three.
    func beginBody(_ answer: DownloadAnswer, _ head: ResponseHead, of request: PreparedRequest) throws(RequestError)
    func write(_ data: Data) throws(RequestError)
    /// Checks that what is there is what was wanted.
    func verify() throws(RequestError)
    /// Puts it in its place; told on any thread.
    func commit(
        _ head: ResponseHead, of request: PreparedRequest,
        _ completion: @escaping @Sendable (Result<URL, RequestError>) -> Void)

    /// Lets go of it until the next attempt begins, so that another may have its descriptor; then calls.
    func release(_ completion: @escaping @Sendable () -> Void)
    /// Stops what takes long, for good; what has come may still be written.
    func stop()
    /// Lets go of it: what can be continued stays, everything else goes; then calls, on the lane.
    func close(_ completion: @escaping @Sendable () -> Void)
}

extension DownloadTarget {
    /// What shares its file with others keeps it.
    func release(_ completion: @escaping @Sendable () -> Void) { completion() }
}

/// What an attempt of a download begins with.
enum DownloadBeginning: Sendable {
    case send(PreparedRequest, continuing: ResumePoint?)
    /// There is nothing to send.
    case isThere(URL)
}
