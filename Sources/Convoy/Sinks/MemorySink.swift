// The body in memory.
import Foundation

/// Collects a body in memory, up to a limit.
final class MemorySink: BodySink, @unchecked Sendable {
    // @unchecked: the owner of a sink calls one member at a time, so `data` needs no lock and no check.
    private let limit: Int64
    private let truncates: Bool
    @exclusivity(unchecked) private var data = Data()

    /// - Parameter truncates: whether bytes beyond the limit are dropped instead of failing the request.
    init(limit: Int64, truncates: Bool = false) {
        self.limit = limit
        self.truncates = truncates
    }

    /// Receives the next chunk; the owner may call it under a lock, because it is fast and calls no other code.
    func write(_ new: Data) throws(RequestError) {
        let room = limit - Int64(data.count)
        if Int64(new.count) <= room {
            // The first chunk is not copied, because most bodies have only one.
            if data.isEmpty { data = new } else { data.append(new) }
        } else if truncates {
            data.append(new.prefix(Int(clamping: max(0, room))))
        } else {
            throw .tooLarge("the body has at least \(data.count + new.count) bytes", limit: limit)
        }
    }

    var body: ReceivedBody { ReceivedBody(storedData: data) }

    func finish(_ completion: @escaping @Sendable (Result<ReceivedBody, RequestError>) -> Void) {
        completion(.success(body))
    }
}
