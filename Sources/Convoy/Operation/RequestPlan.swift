// The request of an operation, the decoding of its response and its outcome, with the output's type erased.
import Foundation

// Released at the end, unless ``isValue`` is true. This class itself is the plan of a group, and of a chain's link
// until its request is built. The plan of a request is a ``TypedRequestPlan``.
class RequestPlan: @unchecked Sendable {
    // @unchecked: immutable; the compiler cannot check a class that is not final.
    fileprivate enum Kind: Sendable {
        case request
        case group
        /// Indirect, so that the plans of other requests are no larger.
        indirect case link(LinkLabel, build: @Sendable () throws -> RequestPlan)
    }

    var request: RequestCore { _read { yield sharedRequest.value } }
    private let sharedRequest: CopyOnWrite<RequestCore>
    private let kind: Kind
    /// Whether the plan has no code or object of the caller except decoders, so that it is kept for copies.
    let isValue: Bool

    static let none = RequestPlan(.group)
    private static let noRequest = CopyOnWrite(RequestCore(method: .get, url: nil))

    private init(_ kind: Kind) { (sharedRequest, self.kind, isValue) = (Self.noRequest, kind, false) }

    fileprivate init(_ request: CopyOnWrite<RequestCore>, _ kind: Kind, isValue: Bool) {
        (sharedRequest, self.kind, self.isValue) = (request, kind, isValue)
    }

    convenience init(link: LinkLabel, build: @escaping @Sendable () throws -> RequestPlan) {
        self.init(.link(link, build: build))
    }

    var isGroup: Bool { if case .group = kind { true } else { false } }
    var core: RequestCore? { if case .request = kind { request } else { nil } }
    /// Builds the request of a chain's link: user code, on the operation's serial executor.
    var build: (@Sendable () throws -> RequestPlan)? { if case .link(_, let build) = kind { build } else { nil } }
    var link: LinkLabel? { if case .link(let label, _) = kind { label } else { nil } }

    /// Decodes a complete body; called on the operation's serial executor if the decoder is user code.
    func respond(_ body: ReceivedBody, _ exchange: Exchange) throws -> AnyOutcome {
        AnyOutcome(error: RequestError(.invalidRequest, "nothing was sent", request: exchange.request.description))
    }
}

final class TypedRequestPlan<Output: Sendable>: RequestPlan, @unchecked Sendable {
    // @unchecked: immutable, like its superclass.
    private let decode: BodyDecoder<Output>

    init(_ request: Request<Output>, _ encoder: JSONEncoder? = nil) {
        decode = request.decode
        var core = request.sharedCore
        if case .json? = request.core.body { core = CopyOnWrite(request.core.encoded(by: encoder)) }
        super.init(core, .request, isValue: request.isValue)
    }

    override func respond(_ body: ReceivedBody, _ exchange: Exchange) throws -> AnyOutcome {
        Success(try decode(body, exchange.head), exchange)
    }
}

/// A class, so that the plans of other requests store only a nil reference.
final class LinkLabel: Sendable, CustomStringConvertible {
    let root: RequestSummary
    let others: Int
    let distance: Int

    init(root: RequestSummary, others: Int, distance: Int = 1) {
        (self.root, self.others, self.distance) = (root, others, distance)
    }

    var description: String {
        let what = distance == 1 ? "the link after" : "link \(distance) after"
        return "\(what) \(root)" + (others > 0 ? " and \(others) more" : "")
    }
}

class AnyOutcome: @unchecked Sendable {
    // @unchecked: immutable; the compiler cannot check a class that is not final.
    let error: RequestError?
    private let failedAttempts: [AttemptRecord]

    init(error: RequestError?, failedAttempts: [AttemptRecord] = []) {
        (self.error, self.failedAttempts) = (error, failedAttempts)
    }

    var failure: RequestError { error ?? RequestError(.decodingFailed, "the outcome is of another type") }
    /// The attempts of this operation, even if the error is another operation's.
    var attempts: [AttemptRecord] { failedAttempts }
    var body: Data? { error?.body }
    var transfer: TransferProgress? { nil }

    func keeping(_ body: Data) -> AnyOutcome { self }

    func listing(_ attempts: [AttemptRecord]) -> AnyOutcome {
        guard let error, !attempts.isEmpty else { return self }
        return AnyOutcome(error: error.with(attempts: attempts), failedAttempts: attempts)
    }
}

final class Success<Output: Sendable>: AnyOutcome, @unchecked Sendable {
    // @unchecked: immutable, like its superclass. The value is not stored as a `Response`, because generic code looks
    // up the metadata of each generic type that it uses.
    private let value: Output
    private let exchange: Exchange
    private let keptBody: Data?

    init(_ value: Output, _ exchange: Exchange, keeping body: Data? = nil) {
        (self.value, self.exchange) = (value, exchange)
        keptBody = body
        super.init(error: nil)
    }

    var response: Response<Output> { Response(value: value, exchange: exchange) }
    override var attempts: [AttemptRecord] { exchange.attempts }
    override var body: Data? { keptBody ?? value as? Data ?? (value as? String).map { Data($0.utf8) } }
    override var transfer: TransferProgress? { exchange.transfer }

    override func keeping(_ body: Data) -> AnyOutcome { Success(value, exchange, keeping: body) }
}
