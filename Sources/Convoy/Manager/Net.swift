// The smallest interface: a URL, parameters, one callback.
import Foundation

/// Sends a request in one call with one callback.
///
/// ```swift
/// Net.get("https://example.com/users", ["page": 2, "tags": ["a", "b"]]) { data, response, error in
///     if let error { return show(error.message) }
///     show(data)
/// }
/// ```
///
/// The parameters of GET, HEAD and DELETE go into the query, those of other methods into the body as a form.
/// Dictionaries become `key[sub]`, an array repeats its key, and keys are sorted. To set limits, retries and the place
/// of callbacks, replace ``manager``. (Apple has a module `Network`.)
///
/// ## Concurrency
/// Every member may be used from any thread.
///
/// ## Topics
/// - ``manager``
/// - ``Callback``
public enum Net {
    /// A function that is called exactly once: after the response, a failure or a cancellation.
    ///
    /// - Parameters:
    ///   - data: the body; after a failure ``RequestError/body``, which may be nil.
    ///   - response: status and header fields; nil without a response.
    ///   - error: why the request failed; nil after a success.
    public typealias Callback = @Sendable (_ data: Data?, _ response: ResponseHead?, _ error: RequestError?) -> Void

    private static let standard = RequestManager()
    private static let replacement = Locked<RequestManager?>(nil)

    /// The manager that sends the requests, standard until you replace it; requests of the old one continue.
    public static var manager: RequestManager {
        get { replacement.withLock { $0 } ?? standard }
        set {
            // The old manager is released outside the lock.
            var manager: RequestManager? = newValue
            replacement.withLock { swap(&$0, &manager) }
        }
    }

    /// Sends a request, and calls back once, where the manager does, by default on a thread of the library.
    ///
    /// The URL may be relative to the manager's base URL, and the parameters nested
    /// (``ParameterEncoding/encode(_:)-([String:Any?])``).
    ///
    /// - Returns: the operation, to cancel the request. You need not retain it.
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
