// A client of a transport that replaces an operation.
import Foundation

@testable import Convoy

/// Records the events of a transport in order.
final class RecordingClient: TransportClient {
    enum Call: Equatable, Sendable {
        case head(Int)
        case data(Data)
        case sent(Int64)
        case end(RequestError.Code?)
    }

    let calls = EventLog<Call>()

    func didReceive(_ head: ResponseHead) { calls.record(.head(head.statusCode)) }
    func didReceive(_ data: Data) -> Bool {
        calls.record(.data(data))
        return true
    }
    func didPause() {}
    func didSend(totalBytes: Int64) { calls.record(.sent(totalBytes)) }
    func didFinish(_ error: RequestError?) { calls.record(.end(error?.code)) }
}
