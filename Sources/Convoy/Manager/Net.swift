// The smallest door: a URL, parameters, one callback.
import Foundation

/// Requests in one call with one callback, for code that wants no more than that.
///
/// ```swift
/// Net.get("https://example.com/users", ["page": 2, "tags": ["a", "b"]]) { data, response, error in
///     if let error { return show(error.message) }
///     show(data)
/// }
/// ```
///
/// Not called Network, which is the name of a module of Apple's. Everything else, such as limits, retries and where
/// callbacks run, is set on ``manager``, which may be replaced.
///
/// Parameters go behind the `?` of GET, HEAD and DELETE, and as a form into the body of every other method. Dictionaries
/// become `key[sub]`, an array repeats its key, keys are sorted.
///
/// ## Concurrency
/// Every member may be used from any thread.
///
/// ## Topics
/// - ``manager``
/// - ``Callback``
public enum Net {
    /// What is called once, whatever happens: after the answer, a failure or a cancellation.
    ///
    /// - Parameters:
    ///   - data: the body; of a failure what there is of it, nil when nothing came.
    ///   - response: status and header fields; nil when no answer came.
    ///   - error: why it failed; nil after a success.
    public typealias Callback = @Sendable (_ data: Data?, _ response: ResponseHead?, _ error: RequestError?) -> Void

    private static let shared = Locked<RequestManager?>(nil)

    /// The manager that sends the requests; one with default settings until it is replaced.
    ///
    /// Requests that were sent through another one go on there.
    public static var manager: RequestManager {
        get {
            if let manager = shared.withLock({ $0 }) { return manager }
            let made = RequestManager()
            return shared.withLock { shared in
                if shared == nil { shared = made }
                return shared ?? made
            }
        }
        set {
            let old = shared.withLock { shared in
                defer { shared = newValue }
                return shared
            }
            // Whatever it lets go of is let go of outside the lock.
            withExtendedLifetime(old) {}
        }
    }

    /// Sends a request.
    ///
    /// - Parameters:
    ///   - method: the request method.
    ///   - url: a URL, or a string that is one; relative to the manager's base URL if it has one.
    ///   - parameters: a dictionary, nested as one likes, or nil for none; see ``ParameterEncoding/encode(_:)-([String:Any?])``.
    ///   - callback: called once, where the manager's callbacks run: by default on a queue of the library's.
    /// - Returns: the operation, with which the request can be cancelled; it need not be kept.
    @discardableResult
    public static func request(
        _ method: HTTPMethod, _ url: some RequestURL, _ parameters: [String: Any?]? = nil,
        callback: @escaping Callback
    ) -> RequestOperation<Data> {
        let encoding = ParameterEncoding(arrayEncoding: .noBrackets)
        var request = Request<Data>(method: method, url: url)
        if let parameters {
            let isInQuery = [.get, .head, .delete].contains(method)
            request =
                isInQuery
                ? request.query(parameters, encoding: encoding) : request.form(parameters, encoding: encoding)
        }
        return manager.enqueue(request).onFinish { result in
            switch result {
            case .success(let response): callback(response.value, response.head, nil)
            case .failure(let error): callback(error.body, error.response, error)
            }
        }
    }

    /// Sends a GET request.
    @discardableResult
    public static func get(
        _ url: some RequestURL, _ parameters: [String: Any?]? = nil, callback: @escaping Callback
    ) -> RequestOperation<Data> {
        request(.get, url, parameters, callback: callback)
    }

    /// Sends a POST request, its parameters as a form.
    @discardableResult
    public static func post(
        _ url: some RequestURL, _ parameters: [String: Any?]? = nil, callback: @escaping Callback
    ) -> RequestOperation<Data> {
        request(.post, url, parameters, callback: callback)
    }
}
